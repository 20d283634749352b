package simulation

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // names a script in Redis
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/telemetry"
)

// store is a Redis with a replica that lags. It runs commands in the order in which the network
// delivers them.
type store struct {
	net *network
	bug bug

	mu      sync.Mutex
	primary *node
	replica *node // nil: none yet
	nodes   int
	open    map[net.Conn]bool // connections to the primary
	copied  int               // charges that the replica has
	charges []*charge
}

// node is one Redis server.
type node struct {
	*miniredis.Miniredis

	id    string
	ahead time.Duration // of its clock
}

// charge is a change of the calls of an account on a day, read from the counters before and after a
// script.
type charge struct {
	at      time.Time
	stamp   time.Time // in the window
	account string
	day     string
	calls   int       // negative: a refund
	limit   int       // calls a minute, as the gateway passed it with the current epoch; otherwise 0
	service int       // calls of all accounts on that day
	ofBase  bool      // charged to the base tier
	base    int       // calls of the base tier on that day
	lost    time.Time // when a replica without it took over; otherwise zero
}

// lives reports whether the primary has the charge at a time.
func (c *charge) lives(at time.Time) bool { return c.lost.IsZero() || c.lost.After(at) }

func newStore(n *network, planted bug) *store {
	s := &store{net: n, bug: planted, open: map[net.Conn]bool{}}
	s.primary = s.newNode()
	return s
}

func (s *store) newNode() *node {
	s.nodes++
	n := &node{miniredis.NewMiniRedis(), fmt.Sprint("node-", s.nodes), 0}
	n.ClockTTL(true)
	conn, _ := n.Dial() // starts the server without a port
	_ = conn.Close()
	return n
}

// connect returns the client of a process, opened as in production, with connections in memory to
// the primary.
func (s *store) connect(process string, alive func() bool, changed func(), tel *telemetry.Telemetry) (*redis.Client,
	error) {
	client, err := redisdb.Open(redisdb.Config{URL: "redis://127.0.0.1", OnNewPrimary: changed}, tel)
	if err != nil {
		return nil, err
	}
	client.Options().Dialer = func(context.Context, string, string) (net.Conn, error) {
		if !alive() {
			return nil, syscall.ECONNREFUSED
		}
		here, there := net.Pipe()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[there] = true
		go s.serve(there, process, s.primary)
		return connection{here, s, there}, nil
	}
	return client, nil
}

// connection is a connection of a client, which checks before each use whether the other end has
// closed it, as it does with TCP.
type connection struct {
	net.Conn

	store *store
	other net.Conn
}

// SyscallConn returns an error if the other end has closed the connection.
func (c connection) SyscallConn() (syscall.RawConn, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if !c.store.open[c.other] {
		return nil, errConnection
	}
	return silent{}, nil
}

// silent has nothing to read.
type silent struct{}

func (silent) Control(func(uintptr)) error    { return nil }
func (silent) Read(func(uintptr) bool) error  { return nil }
func (silent) Write(func(uintptr) bool) error { return nil }

// serve delivers the commands of a connection to a node. A command arrives although its client gave
// up, unless another node has taken over.
func (s *store) serve(conn net.Conn, from string, to *node) {
	var out bytes.Buffer
	in, peer := bufio.NewReader(conn), server.NewPeer(bufio.NewWriter(&out))
	defer s.drop(conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		f := fate{}
		switch strings.ToUpper(args[0]) {
		case "HELLO":
			to.Server().Dispatch(peer, args)
		case "INFO": // a section that miniredis lacks
			peer.WriteBulk("role:master\r\nmaster_replid:" + to.id + "\r\n")
		default:
			f = s.net.fate(from, strings.Join(args, " "))
			time.Sleep(f.request)
			if !f.lost && !s.run(to, peer, args) {
				return
			}
			time.Sleep(f.reply)
		}
		peer.Flush()
		switch missing := f.lost || f.unanswered; {
		case missing && f.closed:
			return
		case missing:
			out.Reset()
		default:
			if _, err := out.WriteTo(conn); err != nil {
				return
			}
		}
	}
}

func (s *store) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = conn.Close()
	delete(s.open, conn)
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	size := func() (n int, err error) {
		line, err := r.ReadString('\n')
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n, err
	}
	n, err := size()
	args := make([]string, n)
	for i := range args {
		length, err := size()
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:length])
	}
	return args, err
}

// run runs a command on a node at the time of its clock. It reports false if the node is not the
// primary any more.
func (s *store) run(to *node, peer *server.Peer, args []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to != s.primary {
		return false
	}
	to.SetTime(time.Now().Add(to.ahead))
	name := scriptOf(args)
	if name == s.bug.script && name != "" {
		args = append([]string{"EVAL", strings.Replace(scripts[name], s.bug.from, s.bug.to, 1)}, args[2:]...)
	}
	times := 1
	if name == "refund" && s.bug.refundsTwice {
		times = 2
	}
	for range times {
		before := s.counts()
		to.Server().Dispatch(peer, args)
		if name == "admit" || name == "refund" {
			s.record(before, s.counts(), args)
		}
	}
	return true
}

// field is a counter: the calls of an account on a day.
type field struct{ day, account string }

// counts returns all counters.
func (s *store) counts() map[field]int {
	all := map[field]int{}
	for _, key := range s.primary.Keys() {
		if day, ok := strings.CutPrefix(key, counter.Day("")); ok {
			accounts, _ := s.primary.HKeys(key)
			for _, account := range accounts {
				if account != counter.LatestField {
					all[field{day, account}], _ = strconv.Atoi(s.primary.HGet(key, account))
				}
			}
		}
	}
	return all
}

// record adds the changes that a script made to the counters.
func (s *store) record(before, after map[field]int, args []string) {
	for _, f := range slices.SortedFunc(maps.Keys(after),
		func(a, b field) int { return strings.Compare(a.account, b.account) }) {
		c := &charge{at: time.Now(), account: f.account, day: f.day, calls: after[f] - before[f],
			service: after[field{f.day, counter.ServiceField}],
			base:    after[field{f.day, counter.BaseField}]}
		if c.calls == 0 || f.account == counter.ServiceField || f.account == counter.BaseField {
			continue
		}
		if c.calls > 0 {
			window, _ := s.primary.List(counter.Window(f.account))
			micros, _ := strconv.ParseInt(window[0], 10, 64)
			c.stamp = time.UnixMicro(micros)
			epoch := s.primary.HGet(counter.Epochs, f.account)
			for i, arg := range args[:len(args)-4] {
				if arg == f.account && args[i+1] == epoch {
					c.limit, _ = strconv.Atoi(args[i+2])
					c.ofBase = args[i+4] == "1"
				}
			}
		}
		s.charges = append(s.charges, c)
	}
}

// copy makes the replica a copy of the primary. The clock of the replica is right.
func (s *store) copy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.primary, s.newNode()
	from.SetTime(time.Now().Add(from.ahead))
	to.SetTime(time.Now())
	for _, key := range from.Keys() {
		switch from.Type(key) {
		case "hash":
			fields, _ := from.HKeys(key)
			for _, f := range fields {
				to.HSet(key, f, from.HGet(key, f))
			}
		case "list":
			items, _ := from.List(key)
			_, _ = to.Push(key, items...)
		case "set":
			members, _ := from.Members(key)
			_, _ = to.SetAdd(key, members...)
		}
		to.SetTTL(key, from.TTL(key))
	}
	s.replica, s.copied = to, len(s.charges)
}

// swap lets the replica take over. What the primary did since the copy is lost.
func (s *store) swap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replica == nil {
		return
	}
	for _, c := range s.charges[s.copied:] {
		c.lost = time.Now()
	}
	for conn := range s.open {
		_ = conn.Close()
	}
	clear(s.open)
	s.primary.Close()
	s.primary, s.replica = s.replica, nil
}

// scripts are the Lua scripts of production, by name.
var scripts, scriptSums = readScripts("../admission/*.lua", "../../../../pkg/setback/*.lua")

func readScripts(patterns ...string) (texts, sums map[string]string) {
	texts, sums = map[string]string{}, map[string]string{}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			name, sum := strings.TrimSuffix(filepath.Base(file), ".lua"), sha1.Sum(text) //nolint:gosec // as above
			texts[name], sums[hex.EncodeToString(sum[:])] = string(text), name
			sums[string(text)] = name
		}
	}
	return texts, sums
}

// scriptOf returns the name of the script that a command runs by its hash or its text, or "".
func scriptOf(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return scriptSums[args[1]]
}
