// Command gateway is a minimal gateway: static keys, one limit per minute in Redis, and a reverse proxy. It logs
// each request; it has no metrics and no traces, and revoking a key takes a restart.
//
//	gateway -listen HOST:PORT -redis redis://HOST:PORT -service http://HOST:PORT -keys KEY,... -per-minute N -header 'Name: value' ...
package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/e2e/bench/baseline"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "host and port")
	store := flag.String("redis", "redis://127.0.0.1:6379", "URL of Redis")
	service := flag.String("service", "", "URL of the service")
	keys := flag.String("keys", "", "the keys that are accepted, comma-separated")
	perMinute := flag.Int("per-minute", 60, "calls per minute")
	header := http.Header{}
	flag.Func("header", "header of requests to the service", func(line string) error {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
		return nil
	})
	flag.Parse()
	options, err := redis.ParseURL(*store)
	if err != nil {
		return err
	}
	to, err := url.Parse(*service)
	if err != nil {
		return err
	}
	accounts := map[string]string{}
	for i, key := range strings.Split(*keys, ",") {
		accounts["Bearer "+key] = strconv.Itoa(i)
	}
	gin.SetMode(gin.ReleaseMode)
	client := redis.NewClient(options)
	defer client.Close()
	return http.ListenAndServe(*listen, handler(client, accounts, *perMinute, to, header)) //nolint:gosec // serves the benchmark on loopback
}

// handler returns the gateway in front of the service at to. accounts are by Authorization header.
func handler(client *redis.Client, accounts map[string]string, perMinute int, to *url.URL, header http.Header) http.Handler {
	engine := gin.Default()
	engine.Use(admit(client, accounts, perMinute))
	engine.GET("/api/v1/*path", gin.WrapH(proxy(to, header)))
	return engine
}

// admit responds with 401 to an unknown key, with 429 beyond the limit, and with 503 without Redis.
func admit(client *redis.Client, accounts map[string]string, perMinute int) gin.HandlerFunc {
	limit := redis.NewScript(baseline.Limit)
	return func(g *gin.Context) {
		account, known := accounts[g.GetHeader("Authorization")]
		if !known {
			g.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		admitted, err := limit.Run(g.Request.Context(), client, []string{"minimal:" + account}, perMinute).Int()
		switch {
		case err != nil:
			g.AbortWithStatus(http.StatusServiceUnavailable)
		case admitted == 0:
			g.AbortWithStatus(http.StatusTooManyRequests)
		}
	}
}

// proxy forwards requests with the given headers in place of the client's.
func proxy(to *url.URL, header http.Header) http.Handler {
	return &httputil.ReverseProxy{
		Transport:  &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: buffers{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			for name, values := range header {
				r.Out.Header[name] = values
			}
		},
	}
}

// buffers is the httputil.BufferPool of the proxy.
type buffers struct{}

var pool = sync.Pool{New: func() any { return make([]byte, 32<<10) }}

func (buffers) Get() []byte  { return pool.Get().([]byte) }
func (buffers) Put(b []byte) { pool.Put(b) } //nolint:staticcheck // the interface passes slices by value
