module opportunity.internal/docs

go 1.26.0
