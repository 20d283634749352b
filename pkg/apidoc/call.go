package apidoc

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Call is a call of an operation.
type Call struct {
	Operation Operation
	Values    map[string]string // by name of the parameter; an omitted or empty one is not sent
}

// ExampleCall returns the call of the example.
func (o Operation) ExampleCall() Call {
	c := Call{o, map[string]string{}}
	_, target, _ := strings.Cut(o.Example.Request, " ")
	path, rawQuery, _ := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	for i, segment := range strings.Split(o.Path, "/") {
		if name := strings.Trim(segment, "{}"); name != segment && i < len(segments) {
			c.Values[name] = segments[i]
		}
	}
	query, _ := url.ParseQuery(rawQuery)
	for name := range query {
		c.Values[name] = query.Get(name)
	}
	return c
}

// Target returns the path and the query. Values are escaped, so none can add a path segment or a
// parameter.
func (c Call) Target() string {
	path := c.path()
	if query := c.query(); len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path
}

func (c Call) path() string {
	path := c.Operation.Path
	for _, p := range c.sent("path") {
		path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(p.Value), 1)
	}
	return path
}

func (c Call) query() []string {
	var out []string
	for _, p := range c.sent("query") {
		out = append(out, url.QueryEscape(p.Name)+"="+url.QueryEscape(p.Value))
	}
	return out
}

// Header returns the header parameters.
func (c Call) Header() http.Header {
	h := http.Header{}
	for _, p := range c.sent("header") {
		h.Set(p.Name, p.Value)
	}
	return h
}

// Link returns the values as a query, to fill in a form.
func (c Call) Link() string {
	q := url.Values{}
	for name, value := range c.Values {
		q.Set(name, value)
	}
	return q.Encode()
}

// argument is a parameter with the value that the call sends.
type argument struct {
	Parameter
	Value string
}

// sent returns the arguments in one place (path, query or header), in the order of the description.
func (c Call) sent(in string) []argument {
	var out []argument
	for _, p := range c.Operation.Parameters {
		if value := c.Values[p.Name]; p.In == in && value != "" {
			out = append(out, argument{p, value})
		}
	}
	return out
}

func (a argument) fits() bool {
	s := a.Resolved
	if choices := s.Choices(); choices != nil {
		return slices.Contains(choices, a.Value)
	}
	if s.Is("integer") {
		n, err := strconv.Atoi(a.Value)
		return err == nil && strconv.Itoa(n) == a.Value && (s.Minimum == nil || n >= *s.Minimum) &&
			(s.Maximum == nil || n <= *s.Maximum)
	}
	return true
}
