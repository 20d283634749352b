package api

import "time"

// Timeouts of the gateway. A service behind it must finish earlier to have its own response, error
// included, reach the client.
const (
	// GatewayTimeout limits how long the gateway waits for a service to start its response.
	GatewayTimeout = 10 * time.Second
	// OperatorTimeout limits how long the gateway waits for a service to carry out an operator
	// request.
	OperatorTimeout = 5 * time.Minute
	// FileTimeout limits how long the gateway waits for a service to carry out the import of a
	// file, once it has sent the file.
	FileTimeout = 15 * time.Minute
	// UploadStall limits how long an upload from an operator may take for UploadBlock bytes. It
	// also limits the time without any byte.
	UploadStall = 10 * time.Second
)

// Sizes of request bodies in bytes. The gateway and the service behind it enforce the same.
const (
	MaxForm           = 64 << 10  // a form of a page
	MaxWebhookEvent   = 256 << 10 // an event of a payment processor
	MaxExplorerBody   = 256 << 10 // a response body that the explorer shows; the rest is cut off
	MaxExplorerResult = 512 << 10 // an ExplorerResult
	MaxFile           = 64 << 20  // a file of keys, which is held in memory; files of listings and events have no limit
	UploadBlock       = 64 << 10  // a part of an upload, see UploadStall
)

// Sizes of pages.
const (
	MaxPageSize         = 100  // records: the largest limit of the public API, and of a tier
	MaxOperatorPageSize = 1000 // entries of a list for operators
)

// MaxReported bounds the rejected lines of a file that a response lists. Further ones are only
// counted.
const MaxReported = 200

// ClockTolerance bounds how far a time from a curator may be ahead of the service's clock.
const ClockTolerance = time.Second
