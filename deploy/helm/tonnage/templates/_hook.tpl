{{- /* A Job of a hook with an account of its own, all gone once it has succeeded: root, name, hook, deadline, arguments, cluster's rules, roles by namespace. */ -}}
{{- define "tonnage.hook" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s" (include "tonnage.fullname" $root) (index . 1) -}}
{{- $namespace := $root.Release.Namespace | quote -}}
{{- $subject := dict "kind" "ServiceAccount" "name" $name "namespace" $root.Release.Namespace | toJson -}}
{{- $meta := include "tonnage.hookMeta" (list $root $name (index . 2) "-5") -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- $meta }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  {{- $meta }}
rules: {{- index . 5 | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  {{- $meta }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects: [{{ $subject }}]
{{- range $where, $rules := index . 6 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ quote $where }}
  {{- $meta }}
rules: {{- $rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ quote $where }}
  {{- $meta }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects: [{{ $subject }}]
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "tonnage.hookMeta" (list $root $name (index . 2) "0") }}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: {{ index . 3 }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ $name }}
        app.kubernetes.io/part-of: tonnage
    spec:
      restartPolicy: Never
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.controller.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      tolerations:
        # A driver upgrade that failed leaves its node cordoned; of a small cluster that may be every node.
        - {key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}
        {{- with $root.Values.controller.tolerations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: controller
          image: {{ include "tonnage.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [tonnage, controller]
          args: {{- index . 4 | trim | nindent 12 }}
          env:
            - name: NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          securityContext:
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
          resources:
            requests: {cpu: 20m, memory: 96Mi}
            limits: {memory: 512Mi}
{{- end }}

{{- /* Labels and annotations of an object of a hook: root, name, hook, weight. */ -}}
{{- define "tonnage.hookMeta" }}
  labels:
    app.kubernetes.io/name: {{ index . 1 }}
    app.kubernetes.io/part-of: tonnage
    app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
  annotations:
    helm.sh/hook: {{ index . 2 }}
    helm.sh/hook-weight: {{ index . 3 | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "tonnage.definitionsRules" }}
# RBAC cannot name what is created.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [clusterpolicies.nvidia.com, gpuclusters.nvidia.com, nvidiadrivers.nvidia.com]
  verbs: [get, patch]
{{- end }}

{{- define "tonnage.uninstallArguments" }}
- --withdraw
- {{ printf "--operator-namespace=%s" (.Values.controller.operatorNamespace | default .Release.Namespace) | quote }}
{{- if .Values.migManager.enabled }}
- --agents-divide
{{- end }}
{{- if include "tonnage.drivers" . }}
- --drivers
{{- end }}
{{- if and .Values.controller.enabled .Values.operands.nvidiaNames }}
- {{ printf "--operand-image=%s" (include "tonnage.image" .) | quote }}
{{- end }}
{{- end }}

{{- define "tonnage.uninstallRules" }}
# Agents and controllers of other releases, whose labels would be taken away: the hook waits until they have gone.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
# The agents' conditions.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
- apiGroups: [tonnage.dev]
  resources: [nodegpustatuses]
  verbs: [list, watch]
- apiGroups: [tonnage.dev]
  resources: [nodegpustatuses/status]
  verbs: [patch]
- apiGroups: [node.k8s.io]
  resources: [runtimeclasses]
  verbs: [get, list, watch, delete]
{{- end }}

{{- define "tonnage.uninstallOwnRules" }}
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  resourceNames: [nvidia-cuda-validator]
  verbs: [get, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "tonnage.configMap" . | quote }}, default-mig-parted-config, device-metrics-counters]
  verbs: [patch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [get, list, watch, delete]
{{- end }}

{{- define "tonnage.uninstallOperatorRules" }}
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  resourceNames: [nvidia-cuda-validator]
  verbs: [get, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [get, list, watch, delete]
{{- end }}

{{- define "tonnage.uninstallEventRules" }}
# Events about Nodes, which have no namespace, are written to `default`.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
