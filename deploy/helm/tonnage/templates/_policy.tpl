{{- /* Keys of NVIDIA's gpu-operator chart that are set, of those that ask for a ClusterPolicy; JSON. */ -}}
{{- define "tonnage.policyKeys" -}}
{{- $keys := list -}}
{{- range $key := list "operator" "daemonsets" "driver" "toolkit" "devicePlugin" "dcgm" "dcgmExporter" "gfd" "nodeStatusExporter" "mig" "validator" "sandboxWorkloads" "gds" "gdrcopy" "vgpuManager" "vgpuDeviceManager" "vfioManager" "sandboxDevicePlugin" "kataSandboxDevicePlugin" "ccManager" "kataManager" "hostPaths" "psa" "clusterPolicy" -}}
{{- if get $.Values $key -}}{{- $keys = append $keys $key -}}{{- end -}}
{{- end -}}
{{- toJson $keys -}}
{{- end }}

{{- /* Whether the chart writes a ClusterPolicy; empty when not. */ -}}
{{- define "tonnage.writesPolicy" -}}
{{- if and .Values.controller.enabled (include "tonnage.policyKeys" . | fromJsonArray) (ne (dig "deployCR" true (.Values.clusterPolicy | default dict) | toString) "false") }}yes{{ end -}}
{{- end }}

{{- /* Whether the controller installs drivers: driver.enabled must be said, NVIDIA's default of it is not taken. */ -}}
{{- define "tonnage.drivers" -}}
{{- if and .Values.controller.enabled (or .Values.controller.drivers.enabled (eq (get (.Values.driver | default dict) "enabled" | toString) "true")) }}yes{{ end -}}
{{- end }}

{{- /* Whether device metrics are served. */ -}}
{{- define "tonnage.exporterEnabled" -}}
{{- if or .Values.exporter.enabled (and .Values.controller.enabled (eq (get (.Values.dcgmExporter | default dict) "enabled" | toString) "true")) }}yes{{ end -}}
{{- end }}

{{- /* Where labels are published; gfd.enabled publishes them where nothing else says how. */ -}}
{{- define "tonnage.publish" -}}
{{- if and (eq .Values.features.publish "none") .Values.controller.enabled (eq (get (.Values.gfd | default dict) "enabled" | toString) "true") -}}
direct
{{- else -}}
{{ .Values.features.publish }}
{{- end -}}
{{- end }}

{{- /* The ConfigMap of the agents' MIG layouts; the controller fills it with the one that a policy names. */ -}}
{{- define "tonnage.layouts" -}}
{{- if include "tonnage.writesPolicy" . -}}default-mig-parted-config{{- else -}}{{ .Values.migManager.config.name | default "default-mig-parted-config" }}{{- end -}}
{{- end }}

{{- /* A mapping without what is null, at any depth; JSON. */ -}}
{{- define "tonnage.stripped" -}}
{{- $left := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $left $key (include "tonnage.stripped" $value | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $left $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $left -}}
{{- end }}

{{- /* The spec of the ClusterPolicy that the values mean; JSON. */ -}}
{{- define "tonnage.policySpec" -}}
{{- $spec := (.Files.Get "files/operator/defaults.yaml" | fromYaml).spec -}}
{{- if not (include "tonnage.drivers" .) -}}
{{- $_ := set $spec "driver" (dict "enabled" (not (kindIs "invalid" .Values.driver))) -}}
{{- end -}}
{{- range $key := without (include "tonnage.policyKeys" . | fromJsonArray) "clusterPolicy" -}}
{{- $own := include "tonnage.stripped" (get $.Values $key) | fromJson -}}
{{- $_ := set $spec $key (mergeOverwrite (get $spec $key | default dict) $own) -}}
{{- end -}}
{{- $mig := omit .Values.migManager "evictPods" "cordon" "pauseOperands" "hostPrograms" "reboot" -}}
{{- $_ := set $spec "migManager" (mergeOverwrite $spec.migManager (include "tonnage.stripped" $mig | fromJson)) -}}
{{- if has (get $spec.migManager.config "name") (list "" "default-mig-parted-config") -}}
{{- $_ := unset $spec.migManager.config "name" -}}
{{- end -}}
{{- $cdi := omit (.Values.cdi | default dict) "nvidiaHookPath" "featureFlags" -}}
{{- $_ := set $spec "cdi" (mergeOverwrite $spec.cdi (include "tonnage.stripped" $cdi | fromJson)) -}}
{{- /* What is a value of the chart alone, or has another name there. */ -}}
{{- $_ := set $spec "operator" (omit $spec.operator "repository" "image" "version" "imagePullPolicy" "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" "resources" "logging" "upgradeCRD" "cleanupCRD") -}}
{{- range $section := list "devicePlugin" "migManager" "dcgmExporter" -}}
{{- $component := get $spec $section -}}
{{- if hasKey $component "config" -}}
{{- $_ := set $component "config" (omit $component.config "create" "data") -}}
{{- if not $component.config -}}{{- $_ := unset $component "config" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $driver := $spec.driver -}}
{{- if hasKey $driver "nvidiaDriverCRD" -}}
{{- $_ := set $driver "useNvidiaDriverCRD" (dig "enabled" false $driver.nvidiaDriverCRD) -}}
{{- $_ := unset $driver "nvidiaDriverCRD" -}}
{{- end -}}
{{- if get $driver "enabled" -}}{{- /* NVIDIA's chart has a token looked for, the definition does not */ -}}
{{- $_ := set $driver "licensingConfig" (mergeOverwrite (dict "nlsEnabled" true) (get $driver "licensingConfig" | default dict)) -}}
{{- end -}}
{{- $upgrade := get $driver "upgradePolicy" | default dict -}}
{{- if hasKey $upgrade "gpuPodDeletion" -}}
{{- $_ := set $upgrade "podDeletion" (mergeOverwrite (get $upgrade "podDeletion" | default dict) $upgrade.gpuPodDeletion) -}}
{{- $_ := unset $upgrade "gpuPodDeletion" -}}
{{- end -}}
{{- toJson $spec -}}
{{- end }}

{{- /* Values that are set and have no meaning here, each with its reason, a line each; those that get into the policy are in its status. */ -}}
{{- define "tonnage.meaningless" -}}
{{- $values := .Values -}}
{{- $own := "the controller is Tonnage's; set controller.*" -}}
{{- range list
  (list "operator.repository" $own) (list "operator.image" $own) (list "operator.version" $own)
  (list "operator.imagePullPolicy" "set image.pullPolicy") (list "operator.imagePullSecrets" "set imagePullSecrets")
  (list "operator.priorityClassName" "the controller is system-cluster-critical")
  (list "operator.nodeSelector" "set controller.nodeSelector") (list "operator.tolerations" "set controller.tolerations")
  (list "operator.affinity" $own) (list "operator.resources" "set controller.resources") (list "operator.logging" "set verbose for the agents")
  (list "operator.upgradeCRD" "set controller.definitions") (list "operator.cleanupCRD" "definitions stay, with their objects")
  (list "nfd.enabled" "install node feature discovery by its own chart; nodes are found without")
  (list "nfd.nodefeaturerules" "the agents publish labels themselves")
  (list "node-feature-discovery" "install node feature discovery by its own chart")
  (list "platform.openshift" "Tonnage is not tested on OpenShift: write SecurityContextConstraints for its pods yourself")
  (list "gpuCluster.deployCR" "a GPUCluster cannot stand beside a ClusterPolicy; set claims.enabled") (list "draDriver" "set claims.enabled")
  (list "driver.nvidiaDriverCRD.deployDefaultCR" "write the NVIDIADriver yourself") (list "driver.nvidiaDriverCRD.driverType" "write the NVIDIADriver yourself")
  (list "driver.nvidiaDriverCRD.nodeSelector" "write the NVIDIADriver yourself")
  (list "dcgmExporter.config.create" "set exporter.counters") (list "dcgmExporter.config.data" "set exporter.counters")
  (list "psp" "PodSecurityPolicy is gone from Kubernetes")
-}}
{{- $value := $values -}}
{{- range $step := splitList "." (first .) -}}
{{- $value = (kindIs "map" $value) | ternary (get ((kindIs "map" $value) | ternary $value dict) $step) nil -}}
{{- end -}}
{{- if and $value (ne (toString $value) "false") }}
  {{ first . }}: {{ last . }}
{{- end -}}
{{- end -}}
{{- end }}
