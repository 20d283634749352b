# Developer tasks. Needs Go, git, make and a C compiler; the scripts install everything else from Debian packages.
# docs/contributors/testing.md and releasing.md, and docs/operators/containers.md, describe the targets that `make help` leaves out.

include scripts/go.mk

SERVICES := authquota gateway catalog history billing
# In test order: the slowest modules start first, so none of them runs alone at the end.
MODULES  := e2e cmd/opportunity services/authquota $(addprefix services/,$(filter-out authquota,$(SERVICES))) pkg docs sdk sdk/go sdk/command docker charts
export PACKAGES := $(addprefix ./,$(addsuffix /...,$(MODULES)))

.DEFAULT_GOAL := help
.PHONY: help run build images release try-release pin-images sbom licenses vulncheck try-image cluster-test test race pictures quick lint lint-prose \
  alone tidy generate generate-check fuzz mutate simulate faults bench lighthouse check

help:
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Run the whole API on embedded stores, with sample records and demo keys
	@bin/opportunity up --listen 127.0.0.1:8080 --admin-listen 127.0.0.1:8081 --data-dir .opportunity --seed sample

build: ## Build the command and every service into bin/
	@scripts/build

test: ## Run all tests on real Postgres, Redis and Chromium
	@scripts/test all

race: ## Run the tests of code with goroutines once more, with the race detector
	@scripts/test race

quick: ## Run the tests that need neither a store nor a browser
	@scripts/test quick

lint: lint-prose licenses ## Check format, import rules, licenses and wording
	@test -z "$$(gofmt -l $(MODULES) scripts)" || { gofmt -l $(MODULES) scripts; echo "run gofmt -w on these"; exit 1; }
	@$$(scripts/tool golangci-lint) run $(PACKAGES)

lint-prose:
	@paths=$$(grep -v '^#' .vale/paths); ls -d $$paths >/dev/null && $$(scripts/tool vale) --output=line $$paths # Vale ignores missing paths

generate: ## Regenerate files derived from the code
	@go test ./cmd/opportunity -run TestSettingsPage -update
	@go run scripts/changelog.go
	@go run scripts/layout.go
	@go test ./docs -run UpToDate -update
	@go test ./services/catalog/internal/snapshot -run CasesOfSDKs -update
	@cd sdk && go run ./generate && go test ./generate -run UpToDate -update
	@$$(scripts/tool helm-docs) --log-level warning -c charts/opportunity

check: lint alone generate-check test race try-image ## Run everything that CI runs

bench: build ## Measure against baselines and write docs/benchmarks.md; ONLY=gateway runs one part
	@TMPDIR=/tmp scripts/with-stores scripts/bench $(ONLY) # Postgres on a disk

cluster-test: ## Test images and chart in the cluster of KUBECONFIG; see scripts/cluster-test for requirements
	@scripts/cluster-test

alone: # builds each module without the workspace, as its image build does, and resolves the imports of its tests
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go list -deps -test ./... >/dev/null) || exit 1; done

tidy:
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

generate-check: generate tidy
	@git diff --exit-code -- docs charts sdk '**/go.mod' '**/go.sum'

images: # with docker or buildah
	@scripts/images

try-image:
	@scripts/try-image

release: # writes into dist/; without VERSION a snapshot
	@scripts/release

try-release: # takes several minutes
	@scripts/try-release

pin-images: # needs a network
	@go run ./docker/pin docker/Dockerfile docker/compose.yaml 'k8s/*/*.yaml'

sbom: build
	@for f in opportunity $(SERVICES); do scripts/sbom bin/$$f >bin/$$f.cdx.json || exit 1; done

licenses: # fails if a module's license is not allowed
	@mkdir -p bin && go run ./docker/licenses cmd/opportunity sdk/command $(addprefix services/,$(SERVICES)) >bin/THIRD_PARTY_LICENSES

vulncheck: # needs a network: downloads vuln.go.dev
	@tool=$$(scripts/tool govulncheck); for m in cmd/opportunity $(addprefix services/,$(SERVICES)); do (cd $$m && GOWORK=off $$tool ./...) || exit 1; done

pictures:
	@WALK_PICTURES=1 scripts/test e2e -run InTheBrowser

fuzz:
	@scripts/fuzz $(or $(FUZZTIME),30s)

mutate:
	@scripts/with-stores scripts/mutate $(FOLDER) $(ARGS)

simulate:
	@SIMULATE_SEED=$(or $(SEED),0) SIMULATE_RUNS=$(or $(RUNS),10000) go test ./services/gateway/internal/simulation -run '^TestSimulation$$' -count=1 -timeout 20m -v
	@SIMULATE_SEED=$(or $(SEED),0) SIMULATE_RUNS=$(or $(RUNS),300) scripts/with-stores go test ./services/authquota/internal/epochs -run '^TestSimulation$$' -count=1 -timeout 20m

faults:
	@OPPORTUNITY_FAULTS=$(or $(SECONDS),60) scripts/test e2e -run '^TestFaults$(ONLY)' -timeout 3h -parallel 1

lighthouse:
	@scripts/with-browser scripts/lighthouse/run
