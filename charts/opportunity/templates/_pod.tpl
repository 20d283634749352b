{{/* What all pods have in common. Everything runs under the restricted Pod Security Standard, on a file system that cannot be
     written, without a token of the cluster. */}}

{{/* The pod, but for its containers. */}}
{{- define "opportunity.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
  {{- with .Values.trustedCA.configMapName }}
  - name: trusted-ca
    configMap:
      name: {{ . }}
  {{- end }}
{{- end -}}

{{/* The container, but for its name, args, environment and resources. Takes (list $ "binary"). */}}
{{- define "opportunity.container" -}}
image: {{ include "opportunity.image" . | quote }}
imagePullPolicy: {{ (index . 0).Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if (index . 0).Values.trustedCA.configMapName }}
  - name: trusted-ca
    mountPath: /etc/opportunity/trusted-ca
    readOnly: true
  {{- end }}
{{- end -}}

{{/* Labels and annotations of the pods of one component. The values in pod templates are all that rolls pods; of a Secret only
     its name is there, so secretsRevision says that one has changed. */}}
{{- define "opportunity.podMetadata" -}}
{{- $values := (index . 0).Values -}}
labels:
  {{- include "opportunity.podLabels" . | nindent 2 }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  opportunity.internal/secrets-revision: {{ $values.secretsRevision | quote }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Probes, on the operations port. The startup probe gives a start two minutes and lets the liveness probe be strict after it.
     Readiness has no part in it: a pod that waits for its schema or its peers is alive and must not be killed for it. */}}
{{- define "opportunity.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: operations}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: operations}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: operations}
  periodSeconds: 3
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}
