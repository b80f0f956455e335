{{- define "netto.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "netto.selector" -}}
app.kubernetes.io/name: netto
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "netto.labels" -}}
{{ include "netto.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* A probe can give no password, so with webConfig it only connects. */ -}}
{{- define "netto.probe" -}}
{{- if .values.webConfig.secretName -}}
tcpSocket:
{{- else -}}
httpGet:
  path: {{ .path }}
{{- end }}
  port: {{ .values.port }}
  {{- if ne .values.address "$(HOST_IP)" }}
  # The pod's address is the node's; netto listens here.
  host: {{ .values.address }}
  {{- end }}
{{- end }}
