module opportunity.internal/sdk

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	golang.org/x/mod v0.42.0
	golang.org/x/text v0.43.0
	opportunity.internal/pkg v0.0.0
	opportunity.internal/sdk/command v0.0.0
	opportunity.internal/sdk/go v0.0.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.62.0 // indirect
)

replace opportunity.internal/sdk/command => ./command

replace opportunity.internal/sdk/go => ./go

replace opportunity.internal/pkg => ../pkg
