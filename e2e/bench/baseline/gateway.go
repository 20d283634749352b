package main

import (
	_ "embed"
	"flag"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
)

// limitScript limits an account, here and in nginx.
//
//go:embed limit.lua
var limitScript string

// serveGateway runs a minimal gateway: static keys, one limit per minute in Redis, and a reverse proxy. It logs each request; it has no
// metrics and no traces, and revoking a key takes a restart.
func serveGateway(args []string) error {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "host and port")
	store := flags.String("redis", "redis://127.0.0.1:6379", "URL of Redis")
	service := flags.String("service", "", "URL of the service")
	keys := flags.String("keys", "", "the keys that are accepted, comma-separated")
	perMinute := flags.Int("per-minute", 60, "calls per minute")
	header := http.Header{}
	flags.Func("header", "header of requests to the service", func(line string) error {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
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
	return http.ListenAndServe(*listen, gateway(client, accounts, *perMinute, to, header)) //nolint:gosec // serves the benchmark on loopback
}

// gateway returns the gateway in front of the service at to. accounts are by Authorization header.
func gateway(client *redis.Client, accounts map[string]string, perMinute int, to *url.URL, header http.Header) http.Handler {
	engine := gin.Default()
	engine.Use(admit(client, accounts, perMinute))
	engine.GET("/api/v1/*path", gin.WrapH(proxy(to, header)))
	return engine
}

// admit responds with 401 to an unknown key, with 429 beyond the limit, and with 503 without Redis.
func admit(client *redis.Client, accounts map[string]string, perMinute int) gin.HandlerFunc {
	limit := redis.NewScript(limitScript)
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
