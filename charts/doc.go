// Package charts has the Helm chart of the services and its tests. Without a cluster, the tests
// check the rendered manifests against the Kubernetes types, the restricted Pod Security Standard,
// the documented network connections, and the settings of the services.
package charts
