{{- define "tidegate.pod" -}}
metadata:
  labels:
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "tidegate.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tidegate.account" . }}
  automountServiceAccountToken: true
  # Addresses of Services come from the API, not from variables.
  enableServiceLinks: false
  # The time of leaving, of the drain, and five seconds to end.
  terminationGracePeriodSeconds: {{ add (include "tidegate.leaveSeconds" . | int) .Values.drainSeconds 5 }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    {{- with .Values.user }}
    runAsUser: {{ int64 . }}
    runAsGroup: {{ int64 . }}
    fsGroup: {{ int64 . }}
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: tidegate
      image: {{ include "tidegate.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "tidegate.arguments" . | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: POD_IPS
          valueFrom:
            fieldRef:
              fieldPath: status.podIPs
        - name: STATE_DIRECTORY
          value: /var/lib/tidegate
        {{- with .Values.environment }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        {{- $ports := dict "http" .Values.listen.http "https" .Values.listen.https }}
        {{- range $name, $port := $ports }}
        - name: {{ $name }}
          containerPort: {{ $port }}
          {{- if eq $.Values.kind "DaemonSet" }}
          {{- with index $.Values.hostPort $name }}
          hostPort: {{ . }}
          {{- end }}
          {{- end }}
        {{- end }}
        {{- range .Values.service.tcp }}
        - name: tcp-{{ int64 . }}
          containerPort: {{ int64 . }}
          {{- if eq $.Values.kind "DaemonSet" }}
          hostPort: {{ int64 . }}
          {{- end }}
        {{- end }}
        - name: metrics
          containerPort: {{ .Values.metrics.port }}
      # None of them asks for more than this process: an API server that is away restarts nothing.
      startupProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet:
          path: /readyz
          port: metrics
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 3
      securityContext:
        allowPrivilegeEscalation: false
        privileged: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: config
          mountPath: /etc/tidegate
          readOnly: true
        - name: state
          mountPath: /var/lib/tidegate
        {{- if .Values.snapshots.enabled }}
        - name: snapshots
          mountPath: /run/tidegate
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "tidegate.name" . }}
    - name: state
      emptyDir:
        sizeLimit: {{ .Values.state.sizeLimit }}
    {{- if .Values.snapshots.enabled }}
    # Secrets are among the objects, so they are never on a disk.
    - name: snapshots
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.snapshots.sizeLimit }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if and .Values.topologySpread.enabled (eq .Values.kind "Deployment") }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "tidegate.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
