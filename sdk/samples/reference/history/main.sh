curl --fail --get "$OPPORTUNITY_URL/api/v1/opportunities/maple-scribe/history" \
  --header "Authorization: Bearer $OPPORTUNITY_KEY" \
  --data limit=100
