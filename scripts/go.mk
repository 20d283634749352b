# Flags of Go for every target. Everything is compiled as the released programs are, so that every clone, target and linter shares the
# cache of compiled packages.
export CGO_ENABLED := 0
export GOFLAGS     += -trimpath
