package e2e

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest"
)

// baselineVariable names the baseline that a process is: the least that does a comparable job.
const baselineVariable = "BENCH_BASELINE"

var baselines = map[string]func() error{"gateway": serveMinimal, "records": serveRecords}

// startBaseline starts a baseline on a free address, which is in the environment as LISTEN, and
// returns calls of a path there.
func startBaseline(b *testing.B, name, setting string, keys []string, path string) side {
	address := storetest.FreeAddress(b)
	program := storetest.Must(os.Executable())(b)
	p := start(b, []string{baselineVariable + "=" + name, "LISTEN=" + address, setting}, program)
	return listens(b, p, address, keys, path)
}

// listens waits until a process listens at an address, and returns calls of a path there.
func listens(b *testing.B, p *process, address string, keys []string, path string) side {
	eventually(b, p.name+" listens", func() bool {
		conn, err := net.Dial("tcp", address) //nolint:noctx // on loopback
		return err == nil && conn.Close() == nil
	})
	return callsOf(address, keys, []*process{p}, path)
}

func serveHTTP(h http.Handler) error {
	return http.ListenAndServe(os.Getenv("LISTEN"), h) //nolint:gosec // on loopback
}

// limitScript limits an account, in the minimal gateway and in nginx.
//
//go:embed bench/limit.lua
var limitScript string

// edge is a gateway in front of the catalog, with a limit of calls per minute unless that is 0.
type edge struct {
	Listen, Service, Redis string // host and port
	Token, Caller          string // of requests to the catalog
	Keys                   []string
	PerMinute              int
	Dir, Limit             string // for nginx
}

func (s *benchmark) edge(perMinute int) edge {
	return edge{
		Listen: storetest.FreeAddress(s), Service: s.addresses["catalog"], Redis: s.addresses["redis"],
		Token: tokenBetween(peer.Gateway, peer.Catalog), Caller: paidCaller, Keys: s.paying, PerMinute: perMinute,
		Dir: s.TempDir(), Limit: limitScript,
	}
}

// paidCaller is the caller in requests of the gateway to the catalog.
const paidCaller = `{"tier":"commercial","pageSize":100,"history":true}`

func (s *benchmark) minimal(perMinute int) side {
	text := storetest.Must(json.Marshal(s.edge(perMinute)))(s)
	return startBaseline(s.B, "gateway", "EDGE="+string(text), s.paying, benchRecord)
}

// serveMinimal runs a gateway with static keys, one limit per minute in Redis, and a reverse proxy.
// It logs each request; it has no metrics and no traces, and revoking a key takes a restart.
func serveMinimal() error {
	var e edge
	if err := json.Unmarshal([]byte(os.Getenv("EDGE")), &e); err != nil {
		return err
	}
	gin.SetMode(gin.ReleaseMode)
	client := redis.NewClient(&redis.Options{Addr: e.Redis})
	limit := redis.NewScript(limitScript)
	engine := gin.Default()
	engine.Use(func(g *gin.Context) {
		account := slices.Index(e.Keys, strings.TrimPrefix(g.GetHeader("Authorization"), "Bearer "))
		if account < 0 {
			g.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		keys := []string{fmt.Sprintf("minimal:%d:%d", e.PerMinute, account)}
		admitted, err := limit.Run(g.Request.Context(), client, keys, e.PerMinute).Int()
		switch {
		case err != nil:
			g.AbortWithStatus(http.StatusServiceUnavailable)
		case admitted == 0:
			g.AbortWithStatus(http.StatusTooManyRequests)
		}
	})
	engine.GET("/api/v1/*path", gin.WrapH(&httputil.ReverseProxy{
		Transport:  &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: &buffers{sync.Pool{New: func() any { return make([]byte, 32<<10) }}},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: e.Service})
			r.Out.Header.Set("Authorization", "Bearer "+e.Token)
			r.Out.Header.Set(api.CallerHeader, e.Caller)
		},
	}))
	return serveHTTP(engine)
}

type buffers struct{ sync.Pool }

func (b *buffers) Get() []byte  { return b.Pool.Get().([]byte) }
func (b *buffers) Put(p []byte) { b.Pool.Put(p) } //nolint:staticcheck // the interface passes slices by value

//go:embed bench/nginx.conf
var nginxText string

const nginxProgram = "/usr/sbin/nginx"

func hasNginx() bool {
	_, err := os.Stat(nginxProgram)
	return err == nil
}

// nginx starts nginx as a gateway. Without a limit it only forwards.
func (s *benchmark) nginx(perMinute int) side {
	e := s.edge(perMinute)
	var config strings.Builder
	require.NoError(s, template.Must(template.New("").Parse(nginxText)).Execute(&config, e))
	file := filepath.Join(e.Dir, "nginx.conf")
	require.NoError(s, os.WriteFile(file, []byte(config.String()), 0o600))
	p := start(s.B, nil, nginxProgram, "-p", "/usr/share/nginx", "-c", file)
	return listens(s.B, p, e.Listen, s.paying, benchRecord)
}

// serveRecords serves records from the table records(id, position, body), without authentication,
// limits or a cache: /record/ID is a record, /list the first 100 and the number of all.
func serveRecords() error {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	serve := func(pattern string, body func(r *http.Request) ([]byte, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			text, err := body(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text)
		})
	}
	serve("GET /record/{id}", func(r *http.Request) ([]byte, error) {
		var record []byte
		err := pool.QueryRow(r.Context(), "SELECT body FROM records WHERE id = $1", r.PathValue("id")).Scan(&record)
		return fmt.Appendf(nil, `{"data":%s}`, record), err
	})
	serve("GET /list", func(r *http.Request) ([]byte, error) {
		var total int
		failed := pool.QueryRow(r.Context(), "SELECT count(*) FROM records").Scan(&total)
		rows, _ := pool.Query(r.Context(), "SELECT body FROM records ORDER BY position LIMIT 100 OFFSET 0")
		records, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		list, end := bytes.Join(records, []byte(",")), fmt.Appendf(nil, `],"total":%d}`, total)
		return slices.Concat([]byte(`{"data":[`), list, end), errors.Join(failed, err)
	})
	return serveHTTP(mux)
}

// baselineOfRecords copies the catalog's n records into a table, starts the baseline on it, and
// returns calls of a path.
func (s *benchmark) baselineOfRecords(n int, path string) side {
	database := storetest.Postgres(s)
	db := storetest.Must(pgx.Connect(s.Context(), database))(s)
	defer db.Close(s.Context()) //nolint:errcheck // the errors of statements count
	execute := func(statement string, args ...any) {
		_, err := db.Exec(s.Context(), statement, args...)
		require.NoError(s, err)
	}
	execute("CREATE TABLE records (id text PRIMARY KEY, position bigint UNIQUE, body text)")
	for i, page := range pages(n) {
		execute("INSERT INTO records SELECT r->>'id', $1 + i, r::text FROM json_array_elements($2::json->'data') "+
			"WITH ORDINALITY AS a(r, i)", i*100, string(get(s, s.url, s.paying[0], page).body))
	}
	execute("VACUUM ANALYZE records")
	return startBaseline(s.B, "records", "DATABASE="+database, []string{""}, path)
}
