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

{{- define "tonnage.exporter" -}}
{{ include "tonnage.fullname" . }}-exporter
{{- end }}

{{- define "tonnage.exporterSelectorLabels" -}}
app.kubernetes.io/name: tonnage-exporter
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of the exporter's own objects. */}}
{{- define "tonnage.exporterLabels" -}}
{{ include "tonnage.exporterSelectorLabels" . }}
app.kubernetes.io/part-of: tonnage
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- /* The key dcgmExporter of NVIDIA's gpu-operator chart, where a controller makes it mean something; JSON. */ -}}
{{- define "tonnage.dcgmExporter" -}}
{{- ternary (.Values.dcgmExporter | default dict) dict .Values.controller.enabled | toJson -}}
{{- end }}

{{- /* Whether what is used of a shared device is divided by processes; empty when not. */ -}}
{{- define "tonnage.exporterProcesses" -}}
{{- $nvidias := include "tonnage.dcgmExporter" . | fromJson -}}
{{- if or .Values.exporter.processes $nvidias.hostPID }}yes{{ end -}}
{{- end }}

{{- /* Whether the agent's own pods serve device metrics; empty when not. */ -}}
{{- define "tonnage.exporterInAgent" -}}
{{- if and (include "tonnage.exporterEnabled" .) (not (include "tonnage.exporterProcesses" .)) }}yes{{ end -}}
{{- end }}

{{- /* Whether device metrics are served by pods of their own; empty when not. */ -}}
{{- define "tonnage.exporterAlone" -}}
{{- if and (include "tonnage.exporterEnabled" .) (include "tonnage.exporterProcesses" .) }}yes{{ end -}}
{{- end }}

{{- /* The host's folder of files that say which HPC jobs have a GPU; empty for none. */ -}}
{{- define "tonnage.jobFolder" -}}
{{- $nvidias := get (include "tonnage.dcgmExporter" . | fromJson) "hpcJobMapping" | default dict -}}
{{- if .Values.exporter.hpcJobMappingDir -}}
{{ .Values.exporter.hpcJobMappingDir }}
{{- else if $nvidias.enabled -}}
{{ $nvidias.directory | default "/var/lib/dcgm-exporter/job-mapping" }}
{{- end -}}
{{- end }}

{{- /* Flags of whoever serves device metrics, a line each. */ -}}
{{- define "tonnage.exporterFlags" -}}
{{- $nvidias := include "tonnage.dcgmExporter" . | fromJson -}}
{{- with .Values.exporter }}
- "--exporter-address=:{{ .port }}"
- "--collect-interval={{ .interval | int }}"
- {{ printf "--hostname-label=%s" .hostnameLabel }}
{{- if .kubernetesVirtualGPUs }}
- --kubernetes-virtual-gpus
{{- end }}
{{- if or .kubernetesPodLabels $nvidias.enablePodLabels }}
- --kubernetes-enable-pod-labels
{{- end }}
{{- with .kubernetesPodLabelAllowlist | default $nvidias.podLabelAllowlistRegex }}
- {{ printf "--kubernetes-pod-label-allowlist-regex=%s" (join "," .) | quote }}
{{- end }}
{{- if or .kubernetesPodUID $nvidias.enablePodUID }}
- --kubernetes-enable-pod-uid
{{- end }}
- "--series-limit={{ .seriesLimit | int }}"
{{- if or .counters $.Values.controller.enabled }}
- --collectors=/etc/tonnage/counters/counters.csv
{{- end }}
{{- if .webConfigSecret }}
- --web-config-file=/etc/tonnage/web/web-config.yaml
{{- end }}
{{- if include "tonnage.jobFolder" $ }}
- --hpc-job-mapping-dir=/etc/tonnage/jobs
{{- end }}
{{- end }}
{{- end }}

{{- /* Where it finds the files of those flags: mounts, then volumes. */ -}}
{{- define "tonnage.exporterMounts" -}}
{{- with .Values.exporter }}
{{- if or .counters $.Values.controller.enabled }}
- {name: counters, mountPath: /etc/tonnage/counters, readOnly: true}
{{- end }}
{{- if .webConfigSecret }}
- {name: web-config, mountPath: /etc/tonnage/web, readOnly: true}
{{- end }}
{{- end }}
{{- if include "tonnage.jobFolder" . }}
- {name: jobs, mountPath: /etc/tonnage/jobs, readOnly: true}
{{- end }}
{{- end }}

{{- define "tonnage.exporterVolumes" -}}
{{- with .Values.exporter }}
{{- if or .counters $.Values.controller.enabled }}
- name: counters
  # With a controller it comes and goes with dcgmExporter.config.name of a ClusterPolicy.
  configMap: {name: {{ include "tonnage.counters" $ }}{{ if not .counters }}, optional: true{{ end }}}
{{- end }}
{{- with .webConfigSecret }}
- name: web-config
  secret: {secretName: {{ quote . }}, defaultMode: 256} # 0400: root's alone
{{- end }}
{{- end }}
{{- with include "tonnage.jobFolder" . }}
- name: jobs # the job scheduler's prolog writes files there
  hostPath: {path: {{ quote . }}, type: DirectoryOrCreate}
{{- end }}
{{- end }}

{{- /* The host's folder that agents mount for the driver's files; empty for none. A driver container mounts its root below
/run after agents may have started, and anew at each upgrade: only a mount of the folder around it shows what comes then. */ -}}
{{- define "tonnage.driverRootShown" -}}
{{- with .Values.nvidiaDriverRoot -}}
{{- $root := clean . -}}
{{- regexMatch "^(/var)?/run/[^/]+/" $root | ternary (dir $root) $root -}}
{{- end -}}
{{- end }}

{{- /* Where the driver's root is in the container. */ -}}
{{- define "tonnage.driverRootInside" -}}
{{- $root := clean .Values.nvidiaDriverRoot -}}
{{- eq $root (include "tonnage.driverRootShown" .) | ternary "/driver-root" (printf "/driver-parent/%s" (base $root)) -}}
{{- end }}

{{- /* What a container mounts of it, and the pod's volume. */ -}}
{{- define "tonnage.driverRootMount" -}}
{{- $shown := include "tonnage.driverRootShown" . -}}
{{- if eq $shown "/" -}}
- {name: driver-root, mountPath: /driver-root, readOnly: true, recursiveReadOnly: IfPossible}
{{- else if $shown -}}
- {name: driver-root, mountPath: {{ regexFind "^/driver-[a-z]+" (include "tonnage.driverRootInside" .) }}, readOnly: true, mountPropagation: HostToContainer}
{{- end -}}
{{- end }}

{{- define "tonnage.driverRootVolume" -}}
{{- with include "tonnage.driverRootShown" . -}}
- name: driver-root
  hostPath: {path: {{ quote . }}, type: {{ eq . (clean $.Values.nvidiaDriverRoot) | ternary "Directory" "DirectoryOrCreate" }}}
{{- end -}}
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
{{- get (dict "direct" "direct" "nodefeature" "nfd-object" "file" "nfd-file") (include "tonnage.publish" .) -}}
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
{{- /* Of a ClusterPolicy cdi.enabled asks for RuntimeClasses; specs need to know where the driver is. */ -}}
{{- $asked := and (dig "enabled" false (.Values.cdi | default dict)) (or .Values.nvidiaDriverRoot (not (include "tonnage.writesPolicy" .))) -}}
{{- if or $asked .Values.claims.enabled (regexMatch "cdi-(annotations|cri)" $texts) $auto }}yes{{ end -}}
{{- end }}

{{- /* What pods of the chart may ask: the API server, and DNS where that is named. */ -}}
{{- define "tonnage.egress" -}}
egress:
  # The API server, whose addresses differ from cluster to cluster.
  - ports:
      {{- range .Values.networkPolicy.apiServerPorts }}
      - {protocol: TCP, port: {{ . }}}
      {{- end }}
    {{- with .Values.networkPolicy.apiServerAddresses }}
    to:
      {{- range . }}
      - ipBlock: {cidr: {{ quote . }}}
      {{- end }}
    {{- end }}
  {{- with .Values.networkPolicy.dnsAddresses }}
  - ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
    to:
      {{- range . }}
      - ipBlock: {cidr: {{ quote . }}}
      {{- end }}
  {{- end }}
{{- end }}

{{- /* A ServiceMonitor: the root, its name, labels, whom it selects, the ports. */ -}}
{{- define "tonnage.serviceMonitor" -}}
{{- $root := index . 0 -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ index . 1 }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- index . 2 | nindent 4 }}
    {{- with $root.Values.serviceMonitor.additionalLabels }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  selector:
    matchLabels: {{- index . 3 | nindent 6 }}
  namespaceSelector:
    matchNames: [{{ $root.Release.Namespace | quote }}]
  endpoints:
    {{- range $port := index . 4 }}
    - port: {{ $port }}
      path: /metrics
      interval: {{ $root.Values.serviceMonitor.interval | quote }}
      {{- with $root.Values.serviceMonitor.scrapeTimeout }}
      scrapeTimeout: {{ quote . }}
      {{- end }}
      honorLabels: {{ $root.Values.serviceMonitor.honorLabels }}
      {{- if eq $port "exporter" }}{{ with $root.Values.serviceMonitor.exporterEndpoint }}{{ toYaml . | nindent 6 }}{{ end }}{{ end }}
      {{- with $root.Values.serviceMonitor.relabelings }}
      relabelings: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.serviceMonitor.metricRelabelings }}
      metricRelabelings: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
{{- end }}

{{- /* Whether the controller judges configurations of claims at admission. */ -}}
{{- define "tonnage.webhook" -}}
{{- if and .Values.controller.enabled .Values.controller.webhook.enabled }}yes{{ end -}}
{{- end }}

{{- /* The Secret with the certificate of that. */ -}}
{{- define "tonnage.webhookSecret" -}}
{{- .Values.controller.webhook.secret | default (printf "%s-webhook" (include "tonnage.controller" .)) -}}
{{- end }}

{{- /* DaemonSets under the names of NVIDIA's operands, a line each. */ -}}
{{- define "tonnage.operands" -}}
- nvidia-container-toolkit-daemonset
- nvidia-operator-validator
- nvidia-device-plugin-daemonset
- nvidia-dcgm-exporter
- gpu-feature-discovery
- nvidia-mig-manager
- nvidia-node-status-exporter
- nvidia-dcgm
{{- end }}

{{- /* What metrics of the cluster are worked out of; the verbs are given. */}}
{{- define "tonnage.clusterMetricsRules" -}}
- apiGroups: [""]
  resources: [namespaces, nodes, persistentvolumeclaims, persistentvolumes, pods, replicationcontrollers, resourcequotas, services]
  verbs: {{ . }}
- apiGroups: [apps]
  resources: [daemonsets, deployments, replicasets, statefulsets]
  verbs: {{ . }}
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: {{ . }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: {{ . }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: {{ . }}
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, devicetaintrules, resourceclaims, resourceclaimtemplates, resourceslices]
  verbs: {{ . }}
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: {{ . }}
- apiGroups: [storage.k8s.io]
  resources: [csidrivers, csinodes, csistoragecapacities, storageclasses, volumeattachments]
  verbs: {{ . }}
- apiGroups: [tonnage.dev]
  resources: [nodegpustatuses]
  verbs: {{ . }}
{{- end }}

{{- /* The ConfigMap of the counters of device metrics; a controller fills it by that name. */}}
{{- define "tonnage.counters" -}}
{{- if .Values.controller.enabled }}device-metrics-counters{{ else }}{{ include "tonnage.exporter" . }}-counters{{ end }}
{{- end }}
