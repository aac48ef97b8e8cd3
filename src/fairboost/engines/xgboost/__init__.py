"""XGBoost behind the port."""
