{{- define "operator.labels" -}}
app: operator
release: {{ .Release.Name }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "operator.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: operator-{{ .hook }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: "{{ .weight }}"
    helm.sh/hook-delete-policy: {{ .policy }}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: hook
        image: busybox:1.37
        command: [sh, -c, 'echo {{ .hook }} of {{ .root.Release.Name }}; {{ eq .root.Values.fail .hook | ternary "exit 3" "true" }}']
{{- end }}
