package operator

import (
	"time"

	"opportunity.internal/pkg/api"
)

// KeyList is the answer of KeyList: keys by what may be shown of them.
type KeyList struct {
	Keys []struct {
		ID        string     `json:"id"`
		Account   string     `json:"account"`
		Tier      api.Tier   `json:"tier"`
		Prefix    string     `json:"prefix"`
		LastFour  string     `json:"lastFour"`
		UseCase   string     `json:"useCase"`
		CreatedAt time.Time  `json:"createdAt"`
		ExpiresAt time.Time  `json:"expiresAt"`
		RevokedAt *time.Time `json:"revokedAt"`
		Status    string     `json:"status"`
	} `json:"keys"`
}

// AccountList is the answer of AccountList.
type AccountList struct {
	Accounts []struct {
		ID        string    `json:"id"`
		Tier      api.Tier  `json:"tier"`
		Suspended bool      `json:"suspended"`
		CreatedAt time.Time `json:"createdAt"`
		UsedToday int       `json:"usedToday"`
		Keys      int       `json:"keys"`
	} `json:"accounts"`
}
