package main

import (
	_ "embed"
	"strings"
	"text/template"
)

//go:embed baseline/limit.lua
var limitScript string

// nginx describes an nginx in front of a service.
type nginx struct {
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

// config returns the content of nginx.conf.
func (n nginx) config() (string, error) {
	var out strings.Builder
	err := nginxTemplate.Execute(&out, struct {
		nginx
		Limit string
	}{n, limitScript})
	return out.String(), err
}
