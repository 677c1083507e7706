{{- /* What is read of a namespace, or of all. */ -}}
{{- define "tidegate.readingRules" -}}
{{- if eq .Values.controller.secrets "named" -}}
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secretNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get, watch]
{{- else -}}
- apiGroups: [""]
  resources: [services, secrets, configmaps]
  verbs: [get, list, watch]
{{- end }}
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
{{- if include "tidegate.obtains" . }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
{{- end }}
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
