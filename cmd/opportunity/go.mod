module opportunity.internal/cmd/opportunity

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
	opportunity.internal/pkg v0.0.0
	opportunity.internal/services/authquota v0.0.0
	opportunity.internal/services/catalog v0.0.0
	opportunity.internal/services/gateway v0.0.0
	opportunity.internal/services/history v0.0.0
)

replace (
	opportunity.internal/docs => ../../docs
	opportunity.internal/pkg => ../../pkg
	opportunity.internal/services/authquota => ../../services/authquota
	opportunity.internal/services/catalog => ../../services/catalog
	opportunity.internal/services/gateway => ../../services/gateway
	opportunity.internal/services/history => ../../services/history
)
