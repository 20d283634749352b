// Package k8s tests the files around the chart: the databases for development, the production
// examples, and skaffold.yaml.
package k8s
