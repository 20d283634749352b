// Package docker tests the Dockerfile and compose.yaml.
package docker
