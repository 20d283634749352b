# Everything a developer does here. It needs Go, git and make; test and bench install Postgres and Redis from Debian's packages
# where they are missing, and test Chromium and Node too.

SERVICES := authquota gateway catalog history billing
# In the order in which they are tested: those that take the longest begin, so that nobody waits for one of them alone at the end.
MODULES  := services/authquota e2e $(addprefix services/,$(filter-out authquota,$(SERVICES))) pkg cmd/opportunity docs docker charts k8s
PACKAGES := $(addprefix ./,$(addsuffix /...,$(MODULES)))
# Nothing runs at once in these, and the race detector would build Kubernetes, Helm and Compose a second time.
UNRACED  := ./charts/... ./docker/... ./k8s/...

BUILD    := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w"
LINT     := .cache/golangci-lint-2.15.0
DOCS     := .cache/helm-docs-1.14.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Run everything here, on embedded stores, with sample records and demo keys
	@bin/opportunity up --listen 127.0.0.1:8080 --admin-listen 127.0.0.1:8081 --data-dir .opportunity --seed sample

.PHONY: build
build: ## Build the command and every service into bin/
	@mkdir -p bin
	$(BUILD) -o bin/ ./cmd/opportunity $(foreach s,$(SERVICES),./services/$(s)/cmd/$(s))

.PHONY: images
images: ## Build the images of all services, with docker or buildah
	@scripts/images

.PHONY: try-image
try-image: ## Build one image where a builder is here, and say so where none is
	@scripts/try-image

.PHONY: cluster-test
cluster-test: ## Try everything in the cluster of KUBECONFIG; scripts/cluster-test says what it needs
	@scripts/cluster-test

.PHONY: test
test: ## Run all tests, with the race detector, on real Postgres, Redis and Chromium
	@go test -shuffle=on $(UNRACED)
	@scripts/with-stores scripts/with-browser go test -race -shuffle=on -timeout 20m $(filter-out $(UNRACED),$(PACKAGES))

.PHONY: lint
lint: $(LINT) ## Check form and import rules
	@test -z "$$(gofmt -l $(MODULES))" || { gofmt -l $(MODULES); echo "run gofmt -w on these"; exit 1; }
	@$(LINT) run $(PACKAGES)

$(LINT):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	@mv .cache/golangci-lint $@

.PHONY: alone
alone: ## Build and vet every module by itself, as its image is built: without the workspace
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go vet ./...) || exit 1; done

.PHONY: tidy
tidy: ## Tidy every module
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

.PHONY: generate
generate: $(DOCS) ## Write again what is made from the code
	@go test ./cmd/opportunity -run TestSettingsPage -update
	@$(DOCS) --log-level warning -c charts/opportunity

$(DOCS):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
	@mv .cache/helm-docs $@

.PHONY: generate-check
generate-check: generate tidy ## Fail where a generated file or a go.mod is out of date
	@git diff --exit-code -- docs charts '**/go.mod' '**/go.sum'

.PHONY: fuzz
fuzz: ## Fuzz each parser for FUZZTIME (default 30s)
	@scripts/fuzz $(or $(FUZZTIME),30s)

.PHONY: bench
bench: ## Measure the ratios of docs/benchmarks.md
	@scripts/with-stores scripts/bench

.PHONY: check
check: lint alone generate-check test try-image ## Everything that CI runs
