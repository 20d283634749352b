package proxy

import (
	"errors"
	"fmt"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

var operatorHeaders = []string{"Accept", "Content-Type", "If-Match"}

// Operate sends the request r of an operator to the service, with its body as a stream. actor is
// the value of api.ActorHeader. The response passes unchanged, as a stream.
//
// It is an error that names the cause if the service rejected the gateway and not the request: its
// 401 and 403 are never about the operator, who would replace a valid token. Without the endpoint,
// the service has another version, or the address belongs to another server.
func (s *Service) Operate(r *http.Request, actor string) (Response, error) {
	header := pick(r, operatorHeaders)
	header[api.ActorHeader] = []string{actor}
	resp, err := s.send(r, r.URL.EscapedPath(), header, r.Body, r.ContentLength)
	if err != nil {
		return Response{}, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		err = peer.RejectedToken(peer.Gateway, s.name)
	case http.StatusSwitchingProtocols:
		err = errors.New("it switched protocols")
	case http.StatusNotFound:
		if found := peek(resp).Error; found.Code == "" || found.Path == problem.Endpoint {
			err = fmt.Errorf("it does not serve %s: compare its release and its address in the settings of the gateway",
				r.URL.Path)
		}
	}
	if err != nil {
		resp.Body.Close()
		return Response{}, problem.New(problem.ServiceUnavailable, "The gateway cannot call %s: %v.", s.name, err)
	}
	return Response{Response: resp, page: true, stream: true}, nil
}
