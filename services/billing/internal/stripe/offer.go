package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v86"

	contract "opportunity.internal/pkg/api"
)

// CheckOffer compares the configured price and its product with the plan table. The error lists
// every difference.
func (s *Stripe) CheckOffer(ctx context.Context) (err error) {
	defer s.observed("offer", time.Now(), &err)
	price, err := s.readPrice(ctx)
	if err != nil {
		return err
	}
	plan := contract.SoldPlan()
	var mismatches []string
	expect := func(field string, got, want any) {
		if got != want {
			mismatches = append(mismatches, fmt.Sprintf("%s is %v, want %v", field, got, want))
		}
	}
	expect("currency", strings.ToLower(string(price.Currency)), "usd")
	expect("amount in cents", price.UnitAmount, int64(plan.MonthlyUSD)*100)
	expect("active", price.Active, true)
	if price.Recurring == nil {
		mismatches = append(mismatches, "it is charged once, want every month")
	} else {
		expect("interval", fmt.Sprintf("%d %s", price.Recurring.IntervalCount, price.Recurring.Interval), "1 month")
		expect("usage type", string(price.Recurring.UsageType), "licensed")
	}
	if price.Product == nil {
		mismatches = append(mismatches, "it has no product")
	} else {
		expect("product name", price.Product.Name, plan.Name)
		expect("product active", price.Product.Active, true)
	}
	if len(mismatches) > 0 {
		return fmt.Errorf("OPPORTUNITY_STRIPE_PRICE %s does not match the %s plan: %s: correct the price at Stripe or use "+
			"another one",
			s.price, plan.Name, strings.Join(mismatches, "; "))
	}
	s.product.Store(&price.Product.ID)
	return nil
}

// productID returns the product of the configured price. Subscriptions are matched by product,
// which stays when the price changes.
func (s *Stripe) productID(ctx context.Context) (string, error) {
	if known := s.product.Load(); known != nil {
		return *known, nil
	}
	price, err := s.readPrice(ctx)
	switch {
	case err != nil:
		return "", err
	case price.Product == nil:
		return "", fmt.Errorf("stripe: price %s has no product", s.price)
	}
	s.product.Store(&price.Product.ID)
	return price.Product.ID, nil
}

func (s *Stripe) readPrice(ctx context.Context) (*api.Price, error) {
	p := &api.PriceRetrieveParams{}
	p.AddExpand("product")
	price, err := s.client.V1Prices.Retrieve(ctx, s.price, p)
	if err != nil {
		return nil, apiError("reading price "+s.price, err)
	}
	return price, nil
}

// digest returns an idempotency key for a request with these contents. Stripe rejects a key that is
// reused for a different request.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
