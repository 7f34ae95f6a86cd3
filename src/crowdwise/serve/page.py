from fastapi import APIRouter

pages = APIRouter()
