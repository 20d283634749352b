curl --fail --get "$OPPORTUNITY_URL/api/v1/opportunities" \
  --header "Authorization: Bearer $OPPORTUNITY_KEY" \
  --data country=CA --data category=sell
