curl --fail "$OPPORTUNITY_URL/api/v1/opportunities/maple-scribe" \
  --header "Authorization: Bearer $OPPORTUNITY_KEY"
