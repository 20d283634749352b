package edge

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"opportunity.internal/pkg/problem"
)

const (
	bodyTimeout      = 10 * time.Second // for a whole body to arrive
	maxForms         = 24 << 20         // bytes of all forms in memory
	maxEvents        = 8 << 20          // bytes of all webhook events in memory
	maxNetworkBodies = 2 << 20          // bytes of the bodies of one kind from one network
	bodyBlock        = 4 << 10          // bytes that are counted at once
)

// bodies limits the memory for request bodies of one kind from the moment at which their bytes
// arrive until the response is written, so that clients that stop in the middle of a body cannot
// fill it. One network gets a share of it only.
type bodies struct {
	max      int64
	mu       sync.Mutex
	total    int64
	networks map[netip.Prefix]int64
}

func newBodies(maximum int64) *bodies {
	return &bodies{max: maximum, networks: map[netip.Prefix]int64{}}
}

// networkOf returns the network of an address: a /48 of IPv6, the most that one customer commonly
// gets, and a /24 of IPv4.
func networkOf(addr netip.Addr) netip.Prefix {
	bits := 48
	if addr = addr.Unmap(); addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits) // fails only for the zero address, whose requests share the zero network
	return network
}

// read reads a body of up to limit bytes and returns it with a function that the caller must call
// when it is no longer needed. The service behind the gateway gets the complete body at once, so
// slow clients do not occupy it.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, limit int64, from netip.Addr) (body []byte,
	release func(), err error) {
	conn, network := http.NewResponseController(w), networkOf(from)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only in tests without a connection
	body, held, err := b.fill(w, r, limit, network)
	if err != nil {
		b.release(network, held)
		linger(w)
		return nil, nil, err
	}
	_ = conn.SetReadDeadline(time.Time{}) // net/http reads on, to notice that the client is gone
	return body, func() { b.release(network, held) }, nil
}

// linger makes net/http close the connection half a second after the response to w, and send that
// response before it reads the rest of the request body. Without it, a client that is still sending
// meets a reset connection instead of the response. Only http.MaxBytesReader can ask net/http for
// it, and only with the ResponseWriter of net/http itself, so one is made to exceed its limit.
func linger(w http.ResponseWriter) {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
}

func (b *bodies) fill(w http.ResponseWriter, r *http.Request, limit int64, network netip.Prefix) (body []byte,
	held int64, err error) {
	tooLarge := problem.New(problem.InvalidParameter, "The request body must be at most %d KiB.", limit>>10)
	if r.ContentLength > limit {
		return nil, 0, tooLarge
	}
	in, buffer := http.MaxBytesReader(w, r.Body, limit), bytes.Buffer{}
	for r.ContentLength != 0 {
		if !b.reserve(network) {
			return nil, held, problem.Unavailable(errTooManyBodies)
		}
		held += bodyBlock
		_, err := io.CopyN(&buffer, in, bodyBlock)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return buffer.Bytes(), held, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, held, tooLarge.Because(err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, held, problem.New(problem.InvalidParameter, "The request body did not arrive within %s. Send it again.",
				bodyTimeout).Because(err)
		}
		return nil, held, problem.New(problem.InvalidParameter,
			"The request body did not arrive completely. Send it again.").Because(err)
	}
	return nil, 0, nil
}

var errTooManyBodies = errors.New("too many request bodies in memory")

func (b *bodies) reserve(network netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+bodyBlock > b.max || b.networks[network]+bodyBlock > maxNetworkBodies {
		return false
	}
	b.total += bodyBlock
	b.networks[network] += bodyBlock
	return true
}

func (b *bodies) release(network netip.Prefix, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= held
	if b.networks[network] -= held; b.networks[network] <= 0 {
		delete(b.networks, network)
	}
}
