// Package k8s holds the tests of what stands beside the chart: the stores for development, the production examples, and
// skaffold.yaml.
package k8s
