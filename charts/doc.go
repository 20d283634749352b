// Package charts holds the Helm chart of the services, and the tests that read what it makes: against the types of Kubernetes, the
// restricted Pod Security Standard, the table of who may talk to whom, and the settings that the services know. They need no cluster.
package charts
