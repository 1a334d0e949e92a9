-- Deliveries.
SELECT 1;
