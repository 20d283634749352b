module opportunity.internal/services/billing

go 1.26.0

require opportunity.internal/pkg v0.0.0

replace opportunity.internal/pkg => ../../pkg
