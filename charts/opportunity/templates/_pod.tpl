{{/* Shared by all pods: the restricted Pod Security Standard, a read-only file system, and no service account token. */}}

{{/* The pod spec without its containers. Takes (list $ "component"), whose values override those of all pods. */}}
{{- define "opportunity.pod" -}}
{{- $values := (index . 0).Values -}}
{{- $own := get $values (index . 1) | default dict -}}
{{- $id := 65532 -}}
{{- $context := dict "runAsNonRoot" true "runAsUser" $id "runAsGroup" $id "fsGroup" $id "seccompProfile" (dict "type" "RuntimeDefault") -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- $own.podSecurityContext | default $values.podSecurityContext | default $context | toYaml | nindent 2 }}
{{- range $field := list "affinity" "nodeSelector" "priorityClassName" "tolerations" }}
{{- with get $own $field | default (get $values $field) }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
  {{- with $values.trustedCA.configMapName }}
  - name: trusted-ca
    configMap:
      name: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/* The container without its name, args, environment and resources. Takes (list $ "binary"). */}}
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

{{/* Labels and annotations of the pods of one component. Only a change in the pod template rolls pods. It contains
     just the name of a Secret, so secretsRevision signals that its content has changed. */}}
{{- define "opportunity.podMetadata" -}}
{{- $values := (index . 0).Values -}}
labels:
  {{- include "opportunity.podLabels" . | nindent 2 }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  opportunity.internal/secrets-revision: {{ kindIs "string" $values.secretsRevision | ternary $values.secretsRevision (toJson $values.secretsRevision) | quote }}
  {{- with merge (dict) ((get $values (index . 1) | default dict).podAnnotations | default dict) ($values.podAnnotations | default dict) ($values.commonAnnotations | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Probes, on the operations port. The startup probe allows two minutes, so the liveness probe can be strict afterwards.
     Liveness does not depend on readiness: a pod that waits for its schema or peers is alive and must not be killed. */}}
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
