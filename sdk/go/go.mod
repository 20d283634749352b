module opportunity.internal/sdk/go

go 1.25.0
