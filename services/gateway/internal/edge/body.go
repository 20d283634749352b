package edge

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/authn"
)

const (
	bodyTimeout      = 10 * time.Second // for a whole body to arrive
	maxBodies        = 32 << 20         // bytes of all bodies in memory
	maxNetworkBodies = 2 << 20          // bytes of the bodies from one network
	bodyBlock        = 4 << 10          // bytes that are counted at once
)

// bodies limits the memory for request bodies from the moment at which their bytes arrive until the response is written, so that
// clients that stop in the middle of a body cannot fill it. One network gets a share of it only.
type bodies struct {
	mu       sync.Mutex
	total    int64
	networks map[netip.Addr]int64
}

func newBodies() *bodies { return &bodies{networks: map[netip.Addr]int64{}} }

// read reads a body of up to limit bytes and returns it with a function that the caller must call when it is no longer needed. The
// service behind the gateway gets the complete body at once, so slow clients do not occupy it.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, limit int64, from netip.Addr) (body []byte, release func(), err error) {
	conn, network := http.NewResponseController(w), authn.Network(from)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only in tests without a connection
	body, held, err := b.fill(w, r, limit, network)
	if err != nil {
		b.release(network, held)
		_ = conn.SetReadDeadline(time.Now()) // so that net/http does not wait for the rest of the body
		return nil, nil, err
	}
	_ = conn.SetReadDeadline(time.Time{}) // net/http reads on, to notice that the client is gone
	return body, func() { b.release(network, held) }, nil
}

// fill returns the body, and the number of bytes that it reserved.
func (b *bodies) fill(w http.ResponseWriter, r *http.Request, limit int64, network netip.Addr) (body []byte, held int64, err error) {
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
			return nil, held, problem.New(problem.InvalidParameter, "The request body did not arrive within %s. Send it again.", bodyTimeout).Because(err)
		}
		return nil, held, problem.New(problem.InvalidParameter, "The request body did not arrive completely. Send it again.").Because(err)
	}
	return nil, 0, nil
}

// errTooManyBodies means that the limit for all bodies or for those of one network is reached.
var errTooManyBodies = errors.New("too many request bodies in memory")

// reserve counts a block for a network, and reports whether it is within the limits.
func (b *bodies) reserve(network netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+bodyBlock > maxBodies || b.networks[network]+bodyBlock > maxNetworkBodies {
		return false
	}
	b.total += bodyBlock
	b.networks[network] += bodyBlock
	return true
}

func (b *bodies) release(network netip.Addr, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= held
	if b.networks[network] -= held; b.networks[network] <= 0 {
		delete(b.networks, network)
	}
}
