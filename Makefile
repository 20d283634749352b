# Developer tasks. Needs Go, git, make, and a C and C++ compiler. test and bench install Postgres and Redis from Debian packages if
# they are missing; test also installs Chromium, Node and Python.

# Everything is compiled as the released programs are, so that every clone, target and linter shares the cache of compiled packages.
export CGO_ENABLED := 0
export GOFLAGS     += -trimpath

SERVICES := authquota gateway catalog history billing
# In test order: the slowest modules start first, so none of them runs alone at the end.
MODULES  := e2e cmd/opportunity services/authquota $(addprefix services/,$(filter-out authquota,$(SERVICES))) pkg docs sdk sdk/go sdk/command docker charts k8s
PACKAGES := $(addprefix ./,$(addsuffix /...,$(MODULES)))
# Folders with tests whose code starts goroutines or uses package sync, and the root of each service, whose tests run all of it.
RACED    = $(sort $(SERVICES:%=./services/%) $(patsubst %/,./%,$(filter $(dir $(shell find services cmd pkg docs sdk/go -name '*_test.go')),$(dir $(shell \
  grep -rlE --include='*.go' --exclude='*_test.go' '^\s+"sync(/atomic)?"|\bgo func|[.]Go.func|^\s+go [a-z]' services cmd pkg docs sdk/go)))))
# Not SQLite, which is C translated to Go, nor argon2id, YAML and Markdown: they have no concurrency of their own, and checking each of
# their memory accesses would take a third of the time of the tests that use them. The last pattern that matches a package sets all of
# its flags. Linking is a fifth faster without debug information and symbols.
UNCHECKED := -race=false -d=checkptr=0 -dwarf=false
RACE     := -race -gcflags=all=-dwarf=false -gcflags='modernc.org/...=$(UNCHECKED)' \
  -gcflags='github.com/glebarez/go-sqlite=-d=checkptr=0 -dwarf=false' -gcflags='golang.org/x/crypto/...=$(UNCHECKED)' \
  -gcflags='go.yaml.in/...=$(UNCHECKED)' -gcflags='github.com/yuin/goldmark/...=$(UNCHECKED)'
TEST     := -vet=off -timeout 20m -ldflags='-s -w'
PROGRAMS := .cache/programs
STORES   := OPPORTUNITY_TEST_QUICK= scripts/name-failures scripts/with-stores scripts/with-browser

LINT     := .cache/golangci-lint-2.15.0
DOCS     := .cache/helm-docs-1.14.2
VALE     := .cache/vale-3.17.0
VULN     := .cache/govulncheck-1.1.4
SBOM     := .cache/cyclonedx-gomod-1.10.0
MUTATE   := .cache/gremlins-0.6.0

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Run the whole API on embedded stores, with sample records and demo keys
	@bin/opportunity up --listen 127.0.0.1:8080 --admin-listen 127.0.0.1:8081 --data-dir .opportunity --seed sample

.PHONY: build
build: ## Build the command and every service into bin/
	@mkdir -p bin
	go build -ldflags "-s -w $$(scripts/stamp)" -o bin/ ./cmd/opportunity $(foreach s,$(SERVICES),./services/$(s)/cmd/$(s))

.PHONY: images
images: ## Build the image of every service, with docker or buildah
	@scripts/images

.PHONY: pin-images
pin-images: ## Pin the images of other projects to the digests that their registries have now (needs a network)
	@go run ./docker/pin docker/Dockerfile docker/compose.yaml 'k8s/*/*.yaml'

.PHONY: sbom
sbom: build $(SBOM) ## Write the software bill of materials of each program to bin/<name>.cdx.json
	@for f in opportunity $(SERVICES); do scripts/sbom bin/$$f >bin/$$f.cdx.json || exit 1; done

.PHONY: licenses
licenses: ## Write THIRD_PARTY_LICENSES; fails if a module's license is not allowed
	@mkdir -p bin && go run ./docker/licenses cmd/opportunity $(addprefix services/,$(SERVICES)) >bin/licenses && mv bin/licenses THIRD_PARTY_LICENSES

.PHONY: vulncheck
vulncheck: $(VULN) ## Report known vulnerabilities in code that is called (needs a network: downloads vuln.go.dev)
	@for m in cmd/opportunity $(addprefix services/,$(SERVICES)); do (cd $$m && GOWORK=off $(CURDIR)/$(VULN) ./...) || exit 1; done

$(VULN):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install golang.org/x/vuln/cmd/govulncheck@v1.1.4
	@mv .cache/govulncheck $@

$(SBOM):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
	@mv .cache/cyclonedx-gomod $@

.PHONY: try-image
try-image: ## Build one image if docker or buildah is installed
	@scripts/try-image

.PHONY: cluster-test
cluster-test: ## Test images and chart in the cluster of KUBECONFIG; see scripts/cluster-test for requirements
	@scripts/cluster-test

.PHONY: test tests
test: ## Run all tests on real Postgres, Redis and Chromium
	@$(STORES) $(MAKE) --no-print-directory tests

# Four packages run at once on two processors, because many tests wait. Their heaps and those of the programs are small, so GOGC=400 saves a
# tenth of their processor time, and a quarter of that of a verb, for little memory. make lint runs vet.
# e2e runs last and alone: its gateways wait only 200 ms for Redis, and compiling beside it takes that long. So do browsers, so the tests
# of faults, in which no call may fail, do not run beside them. Programs stay in the cache, so that they are linked only after a change.
tests: export GOGC := 400
tests:
	@go test $(TEST) -p 4 $(filter-out ./e2e/...,$(PACKAGES)) $$(go list ./e2e/... | grep /e2e/)
	@go build -ldflags=-s -o $(PROGRAMS)/ ./cmd/opportunity $(foreach s,$(SERVICES),./services/$(s)/cmd/$(s))
	@OPPORTUNITY_E2E_BIN=$(CURDIR)/$(PROGRAMS) go test $(TEST) -count=1 -parallel 4 -run '^TestFaults' ./e2e
	@OPPORTUNITY_E2E_BIN=$(CURDIR)/$(PROGRAMS) go test $(TEST) -count=1 -parallel 4 -skip '^TestFaults' ./e2e

.PHONY: race
race: ## Run the tests of code with goroutines once more, with the race detector
# By default the race detector delays the exit of each test program by a second.
	@CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 GOGC=400 $(STORES) go test $(RACE) $(TEST) -shuffle=on -p 4 $(RACED)

.PHONY: pictures
pictures: ## Save pictures of every page in e2e/browser/artifacts, in light and dark, at desktop and phone width
	@WALK_PICTURES=1 $(STORES) go test ./e2e -run InTheBrowser -count=1

.PHONY: quick
quick: ## Run the tests that need neither a store nor a browser
	@OPPORTUNITY_TEST_QUICK=1 go test $(filter-out ./e2e/... ./sdk/... ./charts/... ./docker/... ./k8s/...,$(PACKAGES))

.PHONY: lint
lint: lint-prose $(LINT) ## Check format, import rules and wording
	@test -z "$$(gofmt -l $(MODULES) scripts)" || { gofmt -l $(MODULES) scripts; echo "run gofmt -w on these"; exit 1; }
	@$(LINT) run $(PACKAGES)
	@scripts/lint-imports $(LINT)

.PHONY: lint-prose
lint-prose: $(VALE) ## Check wording only, in under a second
	@paths=$$(grep -v '^#' .vale/paths); ls -d $$paths >/dev/null && $(VALE) --output=line $$paths # Vale ignores missing paths

$(LINT):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	@mv .cache/golangci-lint $@

$(VALE):
	@scripts/install-vale $@

.PHONY: alone
alone: ## Build each module without the workspace, as its image build does, and resolve the imports of its tests
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go list -deps -test ./... >/dev/null) || exit 1; done

.PHONY: tidy
tidy: ## Tidy every module
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

.PHONY: generate
generate: licenses $(DOCS) ## Regenerate files derived from the code
	@go test ./cmd/opportunity -run TestSettingsPage -update
	@go run scripts/changelog.go
	@go test ./docs -run UpToDate -update
	@cd sdk && go run ./generate
	@$(DOCS) --log-level warning -c charts/opportunity

$(DOCS):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
	@mv .cache/helm-docs $@

.PHONY: generate-check
generate-check: generate tidy ## Fail if a generated file or a go.mod is out of date
	@git diff --exit-code -- THIRD_PARTY_LICENSES docs charts sdk '**/go.mod' '**/go.sum'

.PHONY: fuzz
fuzz: ## Fuzz each parser for FUZZTIME (default 30s)
	@scripts/fuzz $(or $(FUZZTIME),30s)

.PHONY: mutate
mutate: $(MUTATE) ## Print the small changes to FOLDER that its tests miss: make mutate FOLDER=services/catalog/internal/query
	@scripts/with-stores scripts/mutate $(FOLDER) $(ARGS)

$(MUTATE):
	@mkdir -p .cache
	GOBIN=$(CURDIR)/.cache go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
	@mv .cache/gremlins $@

.PHONY: simulate
simulate: ## Run gateways, Redis and revocations with simulated time and faults: RUNS seeds (default 10000) from SEED (default 0)
	@SIMULATE_SEED=$(or $(SEED),0) SIMULATE_RUNS=$(or $(RUNS),10000) go test $(TEST) ./services/gateway/internal/simulation -run '^TestSimulation$$' -count=1 -v

.PHONY: faults
faults: ## Cause each fault under load, SECONDS each (default 60), and write the table in docs/operations.md
	@OPPORTUNITY_FAULTS=$(or $(SECONDS),60) $(STORES) go test ./e2e -run '^TestFaults$(ONLY)' -count=1 -timeout 3h -parallel 1

.PHONY: bench
bench: build ## Measure against baselines and write docs/benchmarks.md; ONLY=gateway runs one part
	@TMPDIR=/tmp scripts/with-stores scripts/bench $(ONLY) # Postgres on a disk

.PHONY: lighthouse
lighthouse: ## Audit every public page with Lighthouse at 360 and 1280 px (minutes)
	@scripts/with-browser scripts/lighthouse/run

.PHONY: check
check: lint alone generate-check test race try-image ## Everything that CI runs
