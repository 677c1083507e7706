{{- define "tidegate.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidegate.account" -}}
{{- default (include "tidegate.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ include "tidegate.name" . }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "tidegate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether anything is written to the cluster. */ -}}
{{- define "tidegate.writes" -}}
{{- if and .Values.controller.status (not .Values.controller.shadow) -}}true{{- end -}}
{{- end -}}

{{- /* Whether certificates are obtained from a CA. */ -}}
{{- define "tidegate.obtains" -}}
{{- if and (ne .Values.acme "cert-manager") (not .Values.controller.shadow) -}}true{{- end -}}
{{- end -}}

{{- /* Whether pods see their own Service: there is one, and it is in a namespace that they look at. */ -}}
{{- define "tidegate.seesService" -}}
{{- if and .Values.service.enabled (or (not .Values.controller.namespaces) (has .Release.Namespace .Values.controller.namespaces)) -}}
true
{{- end -}}
{{- end -}}

{{- /* Who does not see it does not see either when the cluster was told, and takes connections for as long as that takes. */ -}}
{{- define "tidegate.leaveSeconds" -}}
{{- ternary .Values.leaveSeconds (max 15 .Values.leaveSeconds) (eq (include "tidegate.seesService" .) "true") -}}
{{- end -}}

{{- define "tidegate.arguments" -}}
- kubernetes
- run
- --config=/etc/tidegate/tidegate.kdl
- --controller={{ .Values.controller.name }}
{{- range .Values.controller.takeOver }}
- --take-over={{ . }}
{{- end }}
{{- range .Values.controller.classes }}
- --ingress-class={{ . }}
{{- end }}
{{- with .Values.controller.namespaces }}
- --namespaces={{ join "," . }}
- --ingress-class={{ $.Values.ingressClass.name }}
{{- end }}
- --http={{ .Values.listen.address }}:{{ .Values.listen.http }}
- --https={{ .Values.listen.address }}:{{ .Values.listen.https }}
- --leave-after={{ include "tidegate.leaveSeconds" . }}s
{{- if ne .Values.controller.hostOwner "shared" }}
- --host-owner={{ .Values.controller.hostOwner }}
{{- end }}
{{- if ne .Values.controller.secrets "listed" }}
- --secrets={{ .Values.controller.secrets }}
{{- end }}
{{- with .Values.controller.defaultCertificate }}
- --default-certificate={{ . }}
{{- end }}
{{- with .Values.controller.defaultBackend }}
- --default-backend={{ . }}
{{- end }}
{{- if include "tidegate.obtains" . }}
- --acme={{ .Values.acme }}
{{- end }}
{{- if .Values.controller.verifyUpstreams }}
- --verify-upstreams
{{- end }}
{{- if ne .Values.controller.unknownSnippets "shut" }}
- --unknown-snippets={{ .Values.controller.unknownSnippets }}
{{- end }}
{{- with .Values.controller.ingressNginxConfig }}
- --ingress-nginx-config={{ . }}
{{- end }}
{{- with .Values.controller.tcpServices }}
- --tcp-services-configmap={{ . }}
{{- end }}
{{- if .Values.controller.shadow }}
- --shadow
{{- else if not .Values.controller.status }}
- --status=off
{{- else }}
- --lease={{ include "tidegate.name" . }}
{{- if .Values.publish.addresses }}
- --publish-address={{ join "," .Values.publish.addresses }}
{{- else if include "tidegate.seesService" . }}
- --publish-service=$(POD_NAMESPACE)/{{ include "tidegate.name" . }}
{{- end }}
{{- end }}
{{- if .Values.snapshots.enabled }}
- --snapshot-dir=/run/tidegate
{{- end }}
{{- range .Values.arguments }}
- {{ . | quote }}
{{- end }}
{{- end -}}
