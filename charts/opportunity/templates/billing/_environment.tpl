{{- define "opportunity.billing.environment" -}}
{{- if and (ne ((.Values.billing.env).OPPORTUNITY_BILLING_PROCESSOR | default "stripe") "sandbox") (not (.Values.billing.env).OPPORTUNITY_STRIPE_PRICE) -}}
{{- fail "billing.env.OPPORTUNITY_STRIPE_PRICE is missing: set it to the id of the Stripe price of the plan, or set billing.enabled to false" -}}
{{- end -}}
{{- $set := include "opportunity.serving" (list . "billing") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_AUTHQUOTA_URL" (include "opportunity.url" (list . "authquota")) -}}
{{- include "opportunity.environment" (list . "billing" $set .Values.billing.resources) -}}
{{- end -}}
