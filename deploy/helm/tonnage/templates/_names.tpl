{{/* The first part of the names of objects; short enough for what follows it. */}}
{{- define "tonnage.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 50 | trimSuffix "-" | trimSuffix "." -}}
{{- end }}

{{- define "tonnage.agent" -}}
{{ include "tonnage.fullname" . }}-agent
{{- end }}

{{- define "tonnage.selectorLabels" -}}
app.kubernetes.io/name: tonnage-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "tonnage.labels" -}}
{{ include "tonnage.selectorLabels" . }}
app.kubernetes.io/part-of: tonnage
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- define "tonnage.controller" -}}
{{ include "tonnage.fullname" . }}-controller
{{- end }}

{{- define "tonnage.controllerSelector" -}}
app.kubernetes.io/name: tonnage-controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "tonnage.controllerLabels" -}}
{{ include "tonnage.controllerSelector" . }}
app.kubernetes.io/part-of: tonnage
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- define "tonnage.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "tonnage.agent" .) }}
{{- else -}}
{{ .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "tonnage.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* The ConfigMap that the agent watches, whether the chart makes it, a person does, or nobody. */}}
{{- define "tonnage.configMap" -}}
{{ .Values.config.name | default "device-plugin-config" }}
{{- end }}

{{/* What --labels takes for features.publish; empty for none. */}}
{{- define "tonnage.labelPlace" -}}
{{- get (dict "direct" "direct" "nodefeature" "nfd-object" "file" "nfd-file") .Values.features.publish -}}
{{- end }}

{{/* The key of config.map that nodes without the label run; empty when there is none. */}}
{{- define "tonnage.defaultConfig" -}}
{{- $map := .Values.config.map -}}
{{- if .Values.config.default -}}
{{ .Values.config.default }}
{{- else if hasKey $map "default" -}}
default
{{- else if and (eq (len $map) 1) (kindIs "invalid" .Values.config.fallbackStrategies) -}}
{{ keys $map | first }}
{{- end -}}
{{- end }}

{{- /* NVIDIA's values as flags, a line each; what is not set says nothing. */ -}}
{{- define "tonnage.pluginFlags" -}}
{{- $lists := .Values.deviceListStrategy -}}
{{- $imex := .Values.imex | default dict -}}
{{- range list
  (list "default-config" (and .Values.config.name .Values.config.default | default nil))
  (list "fallback-strategies" (kindIs "slice" .Values.config.fallbackStrategies | ternary (join "," .Values.config.fallbackStrategies) nil))
  (list "mig-strategy" .Values.migStrategy)
  (list "fail-on-init-error" .Values.failOnInitError)
  (list "device-list-strategy" (kindIs "slice" $lists | ternary (join "," $lists) $lists))
  (list "device-id-strategy" .Values.deviceIDStrategy)
  (list "pass-device-specs" .Values.compatWithCPUManager)
  (list "dev-root" (.Values.nvidiaDevRoot | default nil))
  (list "mps-root" (.Values.mps.root | default nil))
  (list "gdrcopy-enabled" .Values.gdrcopyEnabled)
  (list "gds-enabled" .Values.gdsEnabled)
  (list "mofed-enabled" .Values.mofedEnabled)
  (list "imex-channel-ids" (hasKey $imex "channelIDs" | ternary (join "," $imex.channelIDs) nil))
  (list "cdi-feature-flags" (join "," (get (.Values.cdi | default dict) "featureFlags") | default nil))
  (list "nvidia-cdi-hook-path" (get (.Values.cdi | default dict) "nvidiaHookPath" | default nil))
  (list "imex-required" (hasKey $imex "required" | ternary $imex.required nil))
-}}
{{- if not (kindIs "invalid" (last .)) }}
- {{ printf "--%s=%v" (first .) (last .) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether MIG devices are asked for; empty when not. */ -}}
{{- define "tonnage.divides" -}}
{{- if has .Values.migStrategy (list "single" "mixed") }}yes{{ end -}}
{{- end }}

{{- /* Resources of the agent's container; with MPS without the default limit of memory, which is for the agent alone. */ -}}
{{- define "tonnage.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- if and .Values.mps.root (eq (dig "limits" "memory" "" $resources | toString) "256Mi") -}}
{{- $_ := set $resources "limits" (omit $resources.limits "memory") -}}
{{- if not $resources.limits -}}{{- $_ := unset $resources "limits" -}}{{- end -}}
{{- end -}}
{{- with $resources }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- /* Whether CDI specs are to be written; empty when not. */ -}}
{{- define "tonnage.cdi" -}}
{{- $texts := append (values (.Values.config.map | default dict)) (toString .Values.deviceListStrategy) | join "\n" -}}
{{- $auto := and .Values.nvidiaDriverRoot (or (regexMatch `^\[?auto\]?$` (toString .Values.deviceListStrategy)) (regexMatch `deviceListStrategy:[\s\["'-]*auto\b` $texts)) -}}
{{- if or (dig "enabled" false (.Values.cdi | default dict)) .Values.claims.enabled (regexMatch "cdi-(annotations|cri)" $texts) $auto }}yes{{ end -}}
{{- end }}
