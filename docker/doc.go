// Package docker holds the tests of the Dockerfile and of compose.yaml.
package docker
