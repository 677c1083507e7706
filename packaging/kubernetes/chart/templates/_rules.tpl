{{- /* What is read of a namespace, or of all. */ -}}
{{- define "tidegate.readingRules" -}}
- apiGroups: [""]
  resources: [services, secrets, configmaps]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
{{- end -}}

{{- /* What is written to them. */ -}}
{{- define "tidegate.writingRules" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* Takes the chart's root, and the kind and the name of the role. */ -}}
{{- define "tidegate.binding" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    namespace: {{ .root.Release.Namespace }}
    name: {{ include "tidegate.account" .root }}
{{- end -}}
