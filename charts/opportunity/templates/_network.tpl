{{/* Parts of network policies. A rule with an empty list of peers would allow all traffic, so an empty list renders no rule. */}}

{{/* The pods of one component of this release. Takes (list $ "component"). */}}
{{- define "opportunity.peer" -}}
- podSelector:
    matchLabels: {{- include "opportunity.selector" . | nindent 6 }}
{{- end -}}

{{/* All public addresses. Excludes private, local and reserved ranges of the IANA registries, and .Values.networkPolicy.clusterRanges. */}}
{{- define "opportunity.internet" -}}
{{- $own4 := list -}}
{{- $own6 := list -}}
{{- range .Values.networkPolicy.clusterRanges -}}
{{- if contains ":" . -}}{{- $own6 = append $own6 . -}}{{- else -}}{{- $own4 = append $own4 . -}}{{- end -}}
{{- end -}}
- ipBlock:
    cidr: 0.0.0.0/0
    except:
      {{- range concat (list "0.0.0.0/8" "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.0.0.0/24" "192.168.0.0/16" "198.18.0.0/15" "224.0.0.0/4" "240.0.0.0/4") $own4 | uniq }}
      - {{ . }}
      {{- end }}
- ipBlock:
    cidr: 2000::/3 # contains all public addresses
    except:
      {{- range concat (list "2001::/23" "2001:db8::/32" "2002::/16" "3fff::/20") $own6 | uniq }}
      - {{ . | quote }}
      {{- end }}
{{- end -}}

{{/* A rule of a policy. Takes a dict: direction (from, to), peers (YAML), ports (a list of numbers), protocols (default TCP). */}}
{{- define "opportunity.rule" -}}
{{- if .peers -}}
{{- $protocols := .protocols | default (list "TCP") -}}
- {{ .direction }}:
    {{- .peers | nindent 4 }}
  ports:
    {{- range $port := .ports }}
    {{- range $protocols }}
    - port: {{ $port }}
      protocol: {{ . }}
    {{- end }}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* Peers from the values, as YAML; empty if there are none. */}}
{{- define "opportunity.peers" -}}
{{- with . -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{/* Egress to a peer outside the release: one of .Values.networkPolicy.{dns,telemetry,postgres,redis,smtp,processor}. Takes (list $ "which"). */}}
{{- define "opportunity.outside" -}}
{{- $root := index . 0 -}}
{{- $which := index $root.Values.networkPolicy (index . 1) -}}
{{- $peers := list (include "opportunity.peers" $which.peers) -}}
{{- if $which.internet -}}{{- $peers = append $peers (include "opportunity.internet" $root) -}}{{- end -}}
{{- include "opportunity.rule" (dict "direction" "to" "peers" ($peers | compact | join "\n") "ports" $which.ports "protocols" (ternary (list "UDP" "TCP") (list "TCP") (eq (index . 1) "dns"))) -}}
{{- end -}}

{{/* The policy of one component. Takes (list $ "component" "from" "to"): YAML lists of rules, each possibly empty. Every component
     can also reach DNS and the telemetry collector. */}}
{{- define "opportunity.networkPolicySpec" -}}
{{- $root := index . 0 -}}
podSelector:
  matchLabels: {{- include "opportunity.selector" . | nindent 4 }}
policyTypes: [Ingress, Egress]
{{- with index . 2 | trim }}
ingress: {{- . | nindent 2 }}
{{- end }}
{{- with list (include "opportunity.outside" (list $root "dns")) (include "opportunity.outside" (list $root "telemetry")) (index . 3 | trim) | compact | join "\n" }}
egress: {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* From (or to) components of this release on one port. Takes (list $ "from" port "component"...). */}}
{{- define "opportunity.inside" -}}
{{- $root := index . 0 -}}
{{- $peers := list -}}
{{- range slice . 3 -}}
{{- $optional := has . (list "billing" "desk") -}}
{{- if or (not $optional) (index $root.Values .).enabled -}}
{{- $peers = append $peers (include "opportunity.peer" (list $root .)) -}}
{{- end -}}
{{- end -}}
{{- include "opportunity.rule" (dict "direction" (index . 1) "peers" (join "\n" $peers) "ports" (list (index . 2))) -}}
{{- end -}}

{{- define "opportunity.fromScraper" -}}
{{- include "opportunity.rule" (dict "direction" "from" "peers" (include "opportunity.peers" .Values.networkPolicy.scraper.peers) "ports" (list 9090)) -}}
{{- end -}}
