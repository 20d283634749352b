{{/* Templates shared by the five services. All take (list $ "service"). */}}

{{- define "opportunity.deployment" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $values := index $root.Values $service -}}
apiVersion: apps/v1
kind: Deployment
metadata: {{- include "opportunity.metadata" . | nindent 2 }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  {{- /* A new pod is ready before an old one stops. */}}
  {{- $rolling := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" 0 "maxSurge" 1) }}
  strategy: {{- $values.updateStrategy | default $rolling | toYaml | nindent 4 }}
  selector:
    matchLabels: {{- include "opportunity.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "opportunity.podMetadata" . | nindent 6 }}
        {{- with (lookup "v1" "Secret" $root.Release.Namespace (include "opportunity.secretName" .)).metadata }}
        opportunity.internal/secret-version: {{ .resourceVersion | quote }}
        {{- end }}
    spec:
      {{- include "opportunity.pod" . | nindent 6 }}
        {{- with $values.extraVolumes }}{{ toYaml . | nindent 8 }}{{ end }}
        {{- if eq $service "gateway" }}{{ include (printf "opportunity.%s.volumes" $service) $root | nindent 8 }}{{ end }}
        {{- if ne $root.Values.tls.mode "disabled" }}
        - name: tls
          secret:
            secretName: {{ include "opportunity.tlsSecretName" . | quote }}
            defaultMode: 0440
            {{- if eq $service "gateway" }}
            items: [{key: ca.crt, path: ca.crt}] # its ports have no TLS of their own
            {{- end }}
        {{- end }}
      serviceAccountName: {{ include "opportunity.serviceAccountName" . }}
      terminationGracePeriodSeconds: {{ add $root.Values.shutdown.graceSeconds $root.Values.shutdown.drainSeconds 10 }}
      topologySpreadConstraints:
        {{- with $values.topologySpreadConstraints | default $root.Values.topologySpreadConstraints }}{{ toYaml . | nindent 8 }}{{ else }}
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          matchLabelKeys: [pod-template-hash] # ignores pods of the previous version
          labelSelector:
            matchLabels: {{- include "opportunity.selector" (list $root $service) | nindent 14 }}
        {{- end }}
        {{- end }}
      {{- with $values.initContainers }}
      initContainers: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        {{- with $values.sidecars }}{{ toYaml . | nindent 8 }}{{ end }}
        - name: {{ $service }}
          args: [serve]
          {{- include "opportunity.container" . | nindent 10 }}
            {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 12 }}{{ end }}
            {{- if eq $service "gateway" }}{{ include (printf "opportunity.%s.volumeMounts" $service) $root | nindent 12 }}{{ end }}
            {{- if ne $root.Values.tls.mode "disabled" }}
            - name: tls
              mountPath: /etc/opportunity/tls
              readOnly: true
            {{- end }}
          resources: {{- toYaml ($values.resources | default dict) | nindent 12 }}
          {{- include "opportunity.probes" $root | nindent 10 }}
          ports:
            - name: http
              containerPort: 8080
            - name: operations
              containerPort: 9090
            {{- if eq $service "gateway" }}
            - name: admin
              containerPort: 8081
            {{- end }}
          envFrom:
            - secretRef:
                name: {{ include "opportunity.secretName" . | quote }}
            {{- with $values.extraEnvFrom }}{{ toYaml . | nindent 12 }}{{ end }}
          env: {{- include (printf "opportunity.%s.environment" $service) $root | nindent 12 }}
{{- end -}}

{{/* A Service inside the cluster. */}}
{{- define "opportunity.service" -}}
apiVersion: v1
kind: Service
metadata: {{- include "opportunity.metadata" . | nindent 2 }}
spec:
  type: ClusterIP
  selector: {{- include "opportunity.selector" . | nindent 4 }}
  ports:
    - name: http
      port: 8080
      targetPort: http
{{- end -}}

{{/* The operations port, for Prometheus only. It has its own Service, so no Ingress or load balancer for consumers exposes it.
     It includes unready pods, because those need monitoring most. */}}
{{- define "opportunity.operationsService" -}}
apiVersion: v1
kind: Service
{{- $more := dict "name" (printf "%s-operations" (index . 1)) "labels" (dict "opportunity.internal/port" "operations") }}
metadata: {{- include "opportunity.metadata" (append . $more) | nindent 2 }}
spec:
  type: ClusterIP
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "opportunity.selector" . | nindent 4 }}
  ports:
    - name: operations
      port: 9090
      targetPort: operations
{{- end -}}

{{- define "opportunity.serviceAccount" -}}
{{- if not ((get (index . 0).Values (index . 1)).serviceAccount).name -}}
apiVersion: v1
kind: ServiceAccount
{{- $annotations := ((get (index . 0).Values (index . 1)).serviceAccount).annotations }}
metadata: {{- include "opportunity.metadata" (append . (dict "annotations" $annotations)) | nindent 2 }}
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/* Allows the eviction of one pod at a time, even if there is only one, so a node can always be drained. */}}
{{- define "opportunity.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "opportunity.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ ((index (index . 0).Values (index . 1)).podDisruptionBudget).maxUnavailable | default 1 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "opportunity.selector" . | nindent 6 }}
{{- end -}}

{{- define "opportunity.autoscaler" -}}
{{- $scale := (index (index . 0).Values (index . 1)).autoscaling -}}
{{- if $scale.enabled -}}
{{- if lt (int $scale.maxReplicas) (int $scale.minReplicas) -}}
{{- fail (printf "%s.autoscaling.maxReplicas (%d) must not be below minReplicas (%d)" (index . 1) (int $scale.maxReplicas) (int $scale.minReplicas)) -}}
{{- end -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{- include "opportunity.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "opportunity.name" . }}
  minReplicas: {{ $scale.minReplicas }}
  maxReplicas: {{ $scale.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ $scale.targetCPUPercent }}
  {{- with $scale.behavior }}
  behavior: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* The annotations of an object that migrations need. A failed job stays, for its log. Takes the weight of the hook. */}}
{{- define "opportunity.migrationHook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The job that migrates the schema before the new version runs. Its only secret is the database URL. Its service account and
     network policy are hooks too (templates/release/migrate.yaml), because on the first install nothing else exists yet. */}}
{{- define "opportunity.migration" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $values := index $root.Values $service -}}
{{- $component := list $root "migrate" -}}
apiVersion: batch/v1
kind: Job
{{- $hook := include "opportunity.migrationHook" 0 | fromYaml }}
metadata: {{- include "opportunity.metadata" (append $component (dict "name" (printf "%s-migrate" $service) "annotations" $hook)) | nindent 2 }}
spec:
  backoffLimit: 5 # about 5 minutes with backoff: on a first install the database may still be starting
  template:
    metadata:
      {{- include "opportunity.podMetadata" $component | nindent 6 }}
    spec:
      {{- include "opportunity.pod" . | nindent 6 }}
      serviceAccountName: {{ include "opportunity.name" $component }}
      restartPolicy: Never
      containers:
        - name: migrate
          args: [migrate]
          {{- include "opportunity.container" . | nindent 10 }}
          resources: {{- toYaml ($root.Values.jobResources | default dict) | nindent 12 }}
          env:
            {{- include "opportunity.databaseURL" (list ($values.migrateSecretName | default (include "opportunity.secretName" .))) | nindent 12 }}
            {{- include "opportunity.environment" (list $root $service dict $root.Values.jobResources) | nindent 12 }}
{{- end -}}
