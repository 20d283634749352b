// Package httpapi serves the internal HTTP API of authquota: principals and usage for the gateway, entitlements for billing,
// and keys and accounts for operators (through the gateway). It holds what all requests share. The handlers are in the api
// package of each feature.
package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

// Route is a method and path with its handler.
type Route struct {
	Method string
	Path   string
	Handle func(*gin.Context) (web.Reply, error)
}

// Get returns a Route for GET.
func Get(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodGet, path, handle}
}

// Post returns a Route for POST.
func Post(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodPost, path, handle}
}

// Put returns a Route for PUT.
func Put(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodPut, path, handle}
}

// Handler serves the routes of all features and /readyz. peer.Rules has the services that may call them.
func Handler(errors problem.Writer, ready http.Handler, features ...[]Route) http.Handler {
	e := web.New(errors)
	e.GET("/readyz", gin.WrapH(ready))
	for _, routes := range features {
		for _, r := range routes {
			e.Handle(r.Method, r.Path, web.Handler(errors, r.Handle))
		}
	}
	return e
}

// Epochs increments the epochs in Redis.
type Epochs interface {
	// Deliver makes committed changes of the account take effect.
	Deliver(ctx context.Context, account string) (left int, err error)
}

// Apply delivers the pending epoch increments of an account. After success the change is in effect. After a 503 the change is
// saved and need not be repeated.
func Apply(ctx context.Context, epochs Epochs, account string) error {
	if _, err := epochs.Deliver(ctx, account); err != nil {
		return problem.New(problem.ServiceUnavailable,
			"The change is saved and takes effect automatically as soon as Redis is available again.").
			Retry(time.Second).Because(err)
	}
	return nil
}
