// Package baseline holds what `make bench` compares the API with: the least that does a comparable job.
package baseline

import (
	_ "embed"
	"strings"
	"text/template"
)

// Limit is the script with which the minimal gateway and nginx limit an account.
//
//go:embed limit.lua
var Limit string

// Nginx describes an nginx in front of a service.
type Nginx struct {
	Listen  string // host and port
	Service string // host and port
	Dir     string // for its files
	Header  map[string]string

	// With Redis, a host and port, nginx accepts only Keys and limits each to PerMinute calls. Without, it only forwards.
	RedisHost, RedisPort string
	Keys                 []string
	PerMinute            int
}

//go:embed nginx.conf
var nginxText string

var nginxTemplate = template.Must(template.New("nginx.conf").Parse(nginxText))

// Config returns the content of nginx.conf.
func (n Nginx) Config() (string, error) {
	var out strings.Builder
	err := nginxTemplate.Execute(&out, struct {
		Nginx
		Limit string
	}{n, Limit})
	return out.String(), err
}
