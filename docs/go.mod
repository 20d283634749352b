module opportunity.internal/docs

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/yuin/goldmark v1.7.13
	go.yaml.in/yaml/v3 v3.0.5
	opportunity.internal/pkg v0.0.0
)

replace opportunity.internal/pkg => ../pkg
