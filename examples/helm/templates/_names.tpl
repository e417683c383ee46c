{{- define "valence-sched.labels" -}}
app.kubernetes.io/name: valence-sched
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "valence-sched.settings" -}}
host: 0.0.0.0
port: 8790
auth: basic
users_file: /run/secrets/valence-sched/users
zones: {secrets: [{env: ZONE_KEY}]}
{{- if .Values.tls }}
certificate: /run/secrets/tls/tls.crt
private_key: /run/secrets/tls/tls.key
{{- end }}
{{- end }}
